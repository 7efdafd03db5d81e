"""The README's Python example, as printed there, and the programs of python/examples."""
import pathlib
import re
import runpy

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_readme(capsys):
    block = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.S)[1]
    exec(compile(block, "README.md", "exec"), {})
    assert capsys.readouterr().out.startswith("rms_norm.cpu.row ")


@pytest.mark.parametrize("path", sorted((ROOT / "python" / "examples").glob("*.py")), ids=lambda p: p.stem)
def test_example(path, capsys):
    try:
        runpy.run_path(str(path))
    except SystemExit as e:
        assert not e.code
    said = capsys.readouterr().out
    if "skipped" in said:
        pytest.skip(said.strip())
    assert said
