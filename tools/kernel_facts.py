#!/usr/bin/env python3
"""kernel_facts.py LIBRARY [--write]: registers, stack, shared memory and code size of every kernel in the CUDA half.

Compares them with baracuda/device/kernel_facts.tsv, which is kept for one architecture, and fails where a kernel is missing there or
gone, needs a stack that it did not, takes more than 8 registers or 4 KiB of shared memory more, or grew its code by half. --write renews the file.
A kernel's name has its unit before it: two units may have kernels of one name."""
import argparse
import pathlib
import re
import shutil
import subprocess
import sys

RECORD = pathlib.Path(__file__).resolve().parent.parent / "baracuda/device/kernel_facts.tsv"
HEAD = "kernel\tregisters\tstack\tshared\tcode"


def output(*command, text=None):
    return subprocess.run(command, input=text, capture_output=True, text=True, check=True).stdout


def cuobjdump():
    """Of the CUDA toolkit, or of the package nvidia-cuda-cuobjdump in .venv."""
    places = sorted((RECORD.parents[2] / ".venv/lib").glob("python3*/site-packages/nvidia/*/bin/cuobjdump"))
    found = shutil.which("cuobjdump") or shutil.which("cuobjdump", path="/usr/local/cuda/bin") or (places and str(places[-1]))
    return found or sys.exit("cuobjdump was not found: it comes with the CUDA toolkit, and as the Python package nvidia-cuda-cuobjdump")


def without_arguments(name):
    """Without the last pair of brackets, for template arguments may have some too."""
    if not name.endswith(")"):
        return name
    depth = 0
    for at in range(len(name) - 1, -1, -1):
        depth += {")": 1, "(": -1}.get(name[at], 0)
        if depth == 0:
            return name[:at]
    return name


def facts(library):
    tool = cuobjdump()
    usage = output(tool, "--dump-resource-usage", library)
    architectures = sorted(set(re.findall(r"arch = (\S+)", usage)))
    found = {}
    for name, line in re.findall(r"Function (\S+):\s*\n\s*(.*)", usage):
        values = dict(re.findall(r"([A-Z]+):(\d+)", line))
        found[name] = [int(values["REG"]), int(values["STACK"]), int(values["SHARED"]), 0]
    for line in output(tool, "--dump-elf", library).splitlines():
        # index offset size entsize align type flags link info name
        part = line.split()
        if "PROGBITS" in part and part[-1].startswith(".text."):
            name = part[-1][len(".text."):]
            if name in found:
                found[name][3] = int(part[2], 16)
    names = list(found)
    readable = output("c++filt", text="\n".join(names)).splitlines()
    result = {}
    for name, plain in zip(names, readable):
        unit = re.search(r"_GLOBAL__N__[0-9a-f]+_\d+_(\w+?)_cu_[0-9a-f]+", name)
        plain = plain.replace("(anonymous namespace)::", "").replace("baracuda::cuda::", "").replace("baracuda::", "")
        result[(f"{unit[1]}: " if unit else "") + without_arguments(plain).removeprefix("void ")] = found[name]
    if len(result) != len(found):
        sys.exit(f"{len(found)} kernels have {len(result)} names")
    return architectures, result


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("library")
    p.add_argument("--write", action="store_true")
    a = p.parse_args()
    architectures, now = facts(a.library)
    if len(architectures) != 1:
        sys.exit(f"{a.library} has code for {', '.join(architectures) or 'nothing'}; the record is kept for one architecture")
    if a.write:
        lines = [f"{name}\t" + "\t".join(map(str, now[name])) for name in sorted(now)]
        RECORD.write_text("\n".join([f"# {architectures[0]}", HEAD, *lines]) + "\n")
        print(f"{len(now)} kernels written to {RECORD.name}")
        return
    lines = RECORD.read_text().splitlines()
    if lines[0] != f"# {architectures[0]}":
        sys.exit(f"{RECORD.name} is of {lines[0][2:]}, the library of {architectures[0]}")
    before = {name: list(map(int, rest)) for name, *rest in (line.split("\t") for line in lines[2:])}
    bad = [f"{name}: not in {RECORD.name}" for name in now if name not in before]
    bad += [f"{name}: in {RECORD.name}, but not in the library" for name in before if name not in now]
    for name in now.keys() & before.keys():
        (r0, s0, m0, c0), (r, s, m, c) = before[name], now[name]
        if s > s0 or r > r0 + 8 or m > m0 + 4096 or c > c0 * 1.5 + 512:
            bad.append(f"{name}: registers {r0} to {r}, stack {s0} to {s}, shared {m0} to {m}, code {c0} to {c}")
    if bad:
        sys.exit("\n".join(sorted(bad)) + f"\n{len(bad)} kernels changed; if that is meant: tools/kernel_facts.py LIBRARY --write")
    print(f"{len(now)} kernels as recorded in {RECORD.name}, at most {max(v[0] for v in now.values())} registers, "
          f"{sum(v[1] > 0 for v in now.values())} with a stack")


if __name__ == "__main__":
    main()
