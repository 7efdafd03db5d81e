#!/usr/bin/env python3
"""readme_example.py README.md LANGUAGE OUT: the first block in LANGUAGE (cpp, c, python) of the README, which CI runs."""
import re
import sys

path, language, out = sys.argv[1:]
block = re.search(rf"```{language}\n(.*?)```", open(path, encoding="utf-8").read(), re.S)
if not block:
    sys.exit(f"no {language} block in {path}")
open(out, "w", encoding="utf-8").write(block.group(1))
