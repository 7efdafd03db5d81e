#!/usr/bin/env python3
"""Writes the tables of the documents from the registry of a build.

make_tables.py --baracuda PATH [--check]
A document marks the place with  <!-- table: NAME -->  ...  <!-- end -->.  NAME is `ops` (every op on the CPU), `ops CATEGORY`, or `cuda`
(every op that has kernels for CUDA: left alone where the build has no CUDA half, so that tables do not depend on the machine).
--check writes nothing and fails where a table is out of date.
"""
import argparse
import glob
import json
import os
import re
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def flags(g):
    names = [("deterministic", "deterministic"), ("batch_invariant", "batch invariant"), ("same_on_cpu_and_cuda", "CPU = CUDA")]
    return ", ".join(text for key, text in names if g[key]) or "not deterministic"


def rows(ops, device):
    out = ["| op | what it computes | kernel, best first | device | dtypes | accumulator | guarantee |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for op in ops:
        for i, k in enumerate(k for k in op["kernels"] if k["device"] == device):
            name, summary = (f"`{op['name']}`", op["summary"]) if i == 0 else ("", "")
            summary = summary.replace("|", "\\|")
            out.append(f"| {name} | {summary} | `{k['name']}` | {k['device']} | {' '.join(k['dtypes'])} | "
                       f"{k['guarantee']['accumulator']} | {flags(k['guarantee'])} |")
    return out


def table(name, ops):
    words = name.split()
    if words == ["cuda"]:
        return "\n".join(rows(ops, "cuda"))
    if words[0] != "ops":
        sys.exit(f"unknown table '{name}'")
    chosen = [op for op in ops if len(words) == 1 or op["category"] in words[1:]]
    if not chosen:
        sys.exit(f"table '{name}' names no op")
    return "\n".join(rows(chosen, "cpu"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--baracuda", required=True)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    ops = json.loads(subprocess.run([args.baracuda, "ops", "--json"], check=True, capture_output=True, text=True).stdout)
    with_cuda = any(k["device"] == "cuda" for op in ops for k in op["kernels"])
    stale = []
    for path in sorted([os.path.join(ROOT, "README.md")] + glob.glob(ROOT + "/docs/*.md") + glob.glob(ROOT + "/baracuda/**/*.md", recursive=True)):
        text = open(path, encoding="utf-8").read()
        made = re.sub(r"<!-- table: ([^>]+?) -->.*?<!-- end -->",
                      lambda m: m[0] if m[1] == "cuda" and not with_cuda else f"<!-- table: {m[1]} -->\n{table(m[1], ops)}\n<!-- end -->", text, flags=re.S)
        if made != text:
            stale.append(os.path.relpath(path, ROOT))
            if not args.check:
                open(path, "w", encoding="utf-8").write(made)
    if stale:
        print(("out of date, run `make tables`: " if args.check else "written: ") + " ".join(stale))
    return 1 if stale and args.check else 0


sys.exit(main())
