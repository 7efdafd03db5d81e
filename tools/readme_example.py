#!/usr/bin/env python3
"""readme_example.py README.md out.cpp: the first C++ block of the README, which CI compiles and runs."""
import re
import sys

text = open(sys.argv[1], encoding="utf-8").read()
block = re.search(r"```cpp\n(.*?)```", text, re.S)
if not block:
    sys.exit("no C++ block in " + sys.argv[1])
open(sys.argv[2], "w", encoding="utf-8").write(block.group(1))
