#!/usr/bin/env python3
"""Runs the benchmarks of build/bench and the same shapes with JAX, NumPy and (when installed) torch, one after the other, and writes all of it to
bench/results/FAMILY_cpu.json (with --machine NAME: FAMILY_NAME_cpu.json), with the processor's name. Prints a table: best milliseconds of each, and of the floor (a
copy of as many bytes, or the matrix product's rate) with the median of the rate over the floor's. Quiet machine, please: pages quote these figures.

  tools/bench.py [FAMILY...] [--filter REGEX] [--min-time SECONDS] [--best] [--others WHICH] [--machine NAME] [--build DIR]

Rows of an earlier run on the same processor stay where this one did not measure them. The others get what suits them:
compiled once, warm, results in place where they can."""
import argparse
import glob
import importlib.util
import json
import os
import re
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def processor():
    with open("/proc/cpuinfo") as f:
        told = {}
        for key, _, value in (line.partition(":") for line in f):
            told.setdefault(key.strip(), value.strip())
    name = re.sub(r"\(R\)|\(TM\)| Processor", "", told.get("model name", "unknown"))
    return name if re.search(r"\d", name) or "model" not in told else f"{name} (family {told['cpu family']}, model {told['model']})"


def run_ours(binary, args):
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [binary, f"--benchmark_out={out.name}", "--benchmark_out_format=json", f"--benchmark_min_time={args.min_time}"]
        if args.filter:
            command.append(f"--benchmark_filter={args.filter}")
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        text = open(out.name).read()
    rows = []
    for b in json.loads(text)["benchmarks"] if text.strip() else []:
        row = {"name": re.sub(r"/(manual|real)_time$", "", b["name"])}
        if b.get("error_occurred"):
            row["error"] = b["error_message"]
        else:
            if b.get("label"):
                row["kernel"] = b["label"]
            unit = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3}[b["time_unit"]]
            row["best_ms"] = b.get("best_ms", b["real_time"] * unit)
            row.update({k: b[k] for k in ("floor_ms", "of_copy", "of_read", "of_gemm", "bytes/s", "flop/s", "ns", "chunk", "workspace_MB") if k in b})
        rows.append(row)
    return rows


def run_others(names, threads, which):
    """{name: {"jax_ms": .., "numpy_ms": .., "torch_ms": ..}}, from processes of their own with that many processors."""
    times, versions = {}, {}
    for script, libraries in (("bench_others.py", "JAX and NumPy"), ("bench_torch.py", "torch")):
        if which == "none" or (which == "torch" and libraries != "torch") or (libraries == "torch" and not importlib.util.find_spec("torch")):
            continue
        done = subprocess.run([sys.executable, os.path.join(ROOT, "tools", script), str(threads)], input="\n".join(names), text=True, stdout=subprocess.PIPE)
        if done.returncode != 0:
            print(f"bench: {libraries} did not run; their figures are missing", file=sys.stderr)
            continue
        found = json.loads(done.stdout)
        versions.update(found["versions"])
        for name, t in found["times"].items():
            times.setdefault(name, {}).update(t)
    return times, versions


def round_figures(row):
    return {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in row.items()}


def print_table(rows):
    width = max(len(r["name"]) for r in rows)
    print(f"{'best ms':{width}} {'ours':>9} {'JAX':>9} {'NumPy':>9} {'torch':>9} {'floor':>9}  of it")
    for r in rows:
        cells = " ".join(f"{r[k]:9.4g}" if k in r else f"{'-':>9}" for k in ("best_ms", "jax_ms", "numpy_ms", "torch_ms", "floor_ms"))
        of = r.get("of_copy", r.get("of_read", r.get("of_gemm")))
        print(f"{r['name']:{width}} {cells}  {'' if of is None else f'{of:.2f}'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("family", nargs="*", help="norm, gemm, ...; all that are built when none is named")
    parser.add_argument("--filter", help="regular expression on the names of the benchmarks")
    parser.add_argument("--min-time", default="0.3", help="seconds of measured time per benchmark")
    parser.add_argument("--best", action="store_true", help="keep the better time of this run and the one before, on every side alike: for machines "
                        "with neighbours")
    parser.add_argument("--others", choices=("all", "torch", "none"), default="all", help="which of the others run; what does not run keeps its times of an "
                        "earlier run on the same processor")
    parser.add_argument("--machine", help="a name for the files of another machine than the first one")
    parser.add_argument("--build", default=os.path.join(ROOT, "build", "bench"))
    args = parser.parse_args()
    binaries = {os.path.basename(p)[: -len("_bench")]: p for p in sorted(glob.glob(os.path.join(args.build, "baracuda", "**", "*_bench"), recursive=True))
                if os.access(p, os.X_OK) and os.path.isfile(p)}
    for family in args.family or binaries:
        if family not in binaries:
            sys.exit(f"bench: no benchmark of '{family}' in {args.build}; there are: {' '.join(binaries) or 'none'}")
        rows = run_ours(binaries[family], args)
        team = int(os.environ.get("BARACUDA_NUM_THREADS", len(os.sched_getaffinity(0))))
        versions = {}
        for threads in {team} | {int(m) for r in rows for m in re.findall(r"/threads=(\d+)$", r["name"])}:
            names = [r["name"] for r in rows if (re.findall(r"/threads=(\d+)$", r["name"]) or [str(team)])[0] == str(threads)]
            times, found = run_others(names, threads, args.others) if names else ({}, {})
            versions.update(found)
            for r in rows:
                r.update(times.get(r["name"], {}))
        if not rows:
            continue
        rows = [round_figures(r) for r in rows]
        path = os.path.join(ROOT, "bench", "results", f"{family}_{args.machine}_cpu.json" if args.machine else f"{family}_cpu.json")
        context = {"processor": processor(), "threads": team, **versions}
        kept = []
        if os.path.exists(path):
            before = json.load(open(path))
            if before.get("context", {}).get("processor") in (context["processor"], context["processor"].split(" (")[0]) and "rows" in before:
                new = {r["name"]: r for r in rows}
                resting = {"all": (), "torch": ("jax_ms", "numpy_ms"), "none": ("jax_ms", "numpy_ms", "torch_ms")}[args.others]
                for old in before["rows"]:
                    new.get(old["name"], {}).update({k: old[k] for k in resting if k in old})
                for old in before["rows"] if args.best else []:
                    row = new.get(old["name"], {})
                    for choose, keys in ((min, ("best_ms", "jax_ms", "numpy_ms", "torch_ms", "floor_ms")), (max, ("bytes/s", "flop/s"))):
                        row.update({k: choose(row[k], old[k]) for k in keys if k in row and k in old})
                kept = [r for r in before["rows"] if r["name"] not in new]
                context = {**before["context"], **context}
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write('{"context": ' + json.dumps(context) + ',\n"rows": [\n' + ",\n".join(json.dumps(r) for r in kept + rows) + "\n]}\n")
        print_table(rows)


if __name__ == "__main__":
    main()
