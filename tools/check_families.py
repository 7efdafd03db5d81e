#!/usr/bin/env python3
"""check_families.py BUILD: every family of a build without BARACUDA_FAMILIES links with what its build file says that it needs (baracuda_needs, and NEEDS of
a benchmark), and needs all of it. Nothing is compiled: the symbols of the objects that are there tell. Compares library, tests, benchmarks and CUDA half."""
import pathlib
import re
import subprocess
import sys

OPS = pathlib.Path(__file__).resolve().parent.parent / "baracuda/ops"
EVERYBODYS = set(re.findall(r"\w+/(\w+\.cpp)", (OPS / "CMakeLists.txt").read_text()))  # in a family's folder and in every build


def symbols(objects):
    """Those that the objects define, not weakly, and those that they only use."""
    defined, used = set(), set()
    if objects:
        for line in subprocess.run(["nm", "-P", *map(str, objects)], check=True, capture_output=True, text=True).stdout.splitlines():
            name, kind, *_ = line.split() + [""]
            if kind == "U":
                used.add(name)
            elif kind in "TDBRG":
                defined.add(name)
    return defined, used - defined


def objects(build, family):
    """{part: objects}; a test's or benchmark's part is named as its target is."""
    parts = {"library": [o for o in build.glob(f"baracuda/CMakeFiles/baracuda_objects.dir/ops/{family}/*.o") if o.stem not in EVERYBODYS],
             "CUDA half": list(build.glob(f"baracuda/CMakeFiles/baracuda_cuda_objects.dir/ops/{family}/*.o"))}
    for folder in build.glob(f"baracuda/ops/{family}/CMakeFiles/*.dir"):
        part = folder.stem if re.search("_(test|bench)$", folder.stem) else "library"
        parts.setdefault(part, []).extend(o for o in folder.glob("*.o") if o.stem not in EVERYBODYS)
    return parts


def main():
    build = pathlib.Path(sys.argv[1])
    files = {p.parent.name: p.read_text() for p in OPS.glob("*/CMakeLists.txt")}
    needs = {f: set(" ".join(re.findall(r"^baracuda_needs\(([^)]*)\)", text, re.M)).split()) for f, text in files.items()}

    def closure(families):
        known, left = set(), list(families)
        while left:
            if (f := left.pop()) not in known:
                known.add(f)
                left += needs[f]
        return known

    found = {f: {part: symbols(list_) for part, list_ in objects(build, f).items()} for f in files}
    homes = {}
    for f, parts in found.items():
        for part in ("library", "CUDA half"):
            for s in parts[part][0]:
                homes.setdefault(s, set()).add(f)
    wrong = []
    for f, parts in sorted(found.items()):
        called = set()
        if not parts["library"][0]:
            wrong.append(f"{f}: no objects in {build}")
        for part, (_, used) in parts.items():
            bench = re.search(rf"^baracuda_bench\({part} [^)]*NEEDS ([^)]*)\)", files[f], re.M)
            allowed = closure([f, *(bench[1].split() if bench else [])])
            for s in sorted(used & homes.keys()):
                called |= homes[s] if not bench else set()
                if not homes[s] & allowed:
                    name = subprocess.run(["c++filt", s], capture_output=True, text=True).stdout.strip()
                    wrong.append(f"{f}: its {part} uses {name} of {' or '.join(sorted(homes[s]))}, which it does not say that it needs")
        if "CUDA half" in parts and parts["CUDA half"][0] or not needs[f]:
            wrong += [f"{f}: says that it needs {n} and does not use it" for n in sorted(needs[f] - called)]
    print("\n".join(wrong[:20]) or f"{len(files)} families need what they say")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
