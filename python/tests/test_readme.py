"""The README's Python example, as printed there."""
import os
import re


def test_readme(capsys):
    path = os.path.join(os.path.dirname(__file__), "..", "..", "README.md")
    block = re.search(r"```python\n(.*?)```", open(path, encoding="utf-8").read(), re.S)[1]
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("rms_norm.cpu.row ")
