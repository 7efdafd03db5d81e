#!/usr/bin/env python3
"""gpu_bench.py LIBRARY [--out DIR] [--only REGEX] [NAME...]: correctness on fresh random data and times on the GPU at hand, beside torch.

Each case: our plan on torch's tensors, outputs poisoned, compared with the formula in float64 on the same card; the same bits in
REPEATS runs with other work on the card; then the median time of a run from CUDA graphs that hold several, torch's the same way. Floors are measured in the
same call: a device-to-device copy (bytes read plus written) and torch's matrix product per dtype. Prints one line a case and
writes DIR/FAMILY_CARD.json. The cases stand in gpu_cases_FAMILY.py."""
import argparse
import importlib
import json
import pathlib
import re
import statistics
import sys

import torch

from baracuda_ctypes import Library
from gpu_cases import CASES, DEVICE

REPEATS = 100


def timed(f, inner=10, rounds=15, eager=False):
    """Median seconds of one f(), from a graph of `inner` of them, fewer where they are long, or launched one by one. On the current
    stream, which main() has made: a graph takes what runs on the stream that it is captured on, and autograd's backward runs where the forward ran."""
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    for _ in range(3):
        begin.record()
        f()
        end.record()
    torch.cuda.synchronize()
    if (one := begin.elapsed_time(end)) > 5:
        inner, rounds = max(1, int(inner * 5 / one)), 7

    def several():
        for _ in range(inner):
            f()

    go = several
    if not eager:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=torch.cuda.current_stream()):
            several()
        go = graph.replay
    times = []
    for _ in range(rounds):
        begin.record()
        go()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / inner / 1e3)
    return statistics.median(times)


def copy_bandwidth():
    """Of the better of the copy engine and a kernel."""
    x = torch.empty(1 << 28, dtype=torch.float32, device=DEVICE).normal_()
    y = torch.empty_like(x)
    return 2 * x.numel() * 4 / min(timed(lambda: y.copy_(x)), timed(lambda: torch.neg(x, out=y)))


def matrix_rate(dtype, n=8192):
    a, b = (torch.randn(n, n, device=DEVICE).to(dtype) for _ in range(2))
    out = torch.empty(n, n, dtype=dtype, device=DEVICE)
    return 2 * n ** 3 / timed(lambda: torch.mm(a, b, out=out), inner=3)


def other_work(n=2048, state={}):
    """Products on a stream of their own, beside which the repeats run."""
    if not state:
        state.update(a=torch.randn(n, n, device=DEVICE), out=torch.empty(n, n, device=DEVICE), stream=torch.cuda.Stream())
    with torch.cuda.stream(state["stream"]):
        for _ in range(3):
            torch.mm(state["a"], state["a"], out=state["out"])


EPS = {torch.bfloat16: 2.0 ** -8, torch.float16: 2.0 ** -11, torch.float32: 2.0 ** -23, torch.float64: 2.0 ** -52}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("library")
    p.add_argument("names", nargs="*", help="families; all by default")
    p.add_argument("--out", default="")
    p.add_argument("--only", default="", help="a regular expression that a case's name and dtype match")
    a = p.parse_args()
    for file in sorted(pathlib.Path(__file__).parent.glob("gpu_cases_*.py")):
        if not a.names or file.stem.removeprefix("gpu_cases_") in a.names:
            importlib.import_module(file.stem)
    library = Library(a.library)
    torch.cuda.set_stream(torch.cuda.Stream())
    card = torch.cuda.get_device_name(0)
    floor = copy_bandwidth()
    rates = {d: matrix_rate(d) for d in (torch.bfloat16, torch.float16, torch.float32)}
    print(f"{card}: copy {floor / 1e12:.2f} TB/s, matrix " + ", ".join(f"{str(k).split('.')[1]} {v / 1e12:.0f} TFLOP/s" for k, v in rates.items()))
    results, bad = {}, 0
    for family, name, dtype, make in CASES:
        if a.names and family not in a.names:
            continue
        label = f"{name} {str(dtype).split('.')[1]}"
        if not re.search(a.only, label):
            continue
        torch.cuda.empty_cache()
        try:
            c = make(dtype)
            plan = library.plan(c["op"], DEVICE, **{"preference": c.get("preference"), **c["fields"]})
            run = plan.bind(**c["args"])
            written = c.get("written") or {k: c["args"][k] for k in c["out"]} or {"y": c["args"]["y"]}
            restore = c.get("restore", lambda: [t.fill_(float("nan")) for t in written.values()])
            restore()
            run()
            torch.cuda.synchronize()
            worst = 0.0
            for k, want in c["out"].items():
                got = written[k].double()
                kept = want.isnan() & got.isnan()  # what is not to be written
                got, want = got.masked_fill(kept, 0), want.masked_fill(kept, 0)
                error = ((got - want).norm() / (want.norm() or 1)).item()
                worst = max(worst, error if error == error else float("inf"))
            if "moments" in c:
                mean, var = written["y"].double().mean().item(), written["y"].double().var().item()
                worst = max(abs(mean - c["moments"][0]), abs(var - c["moments"][1]))
            limit = c.get("tolerance", 2e-3 if "moments" in c else 2 * EPS.get(dtype, 0) + 1e-6)
            written = {k: t.reshape(1) if t.dim() == 0 else t for k, t in written.items()}  # whose bytes can be viewed
            first = {k: t.clone().view(torch.uint8) for k, t in written.items()}
            same = True
            for i in range(c.get("repeats", REPEATS)):
                if i % 10 == 0:
                    other_work()
                if "restore" in c:
                    restore()
                run()
                same = same and all(bool((t.view(torch.uint8) == first[k]).all()) for k, t in written.items())
            inner = c.get("inner", 10)
            seconds = timed(run, inner)
            theirs = timed(c["torch"], inner, eager=c.get("eager", False)) if c["torch"] else None
            others = {f"{k}_us": round(timed(f, inner, eager=c.get("eager", False)) * 1e6, 2) for k, f in c.get("others", {}).items()}
            ok = worst <= limit and (same or c.get("other_bits", False))
            bad += not ok
            # The floor: what the bytes need at the copy's bandwidth, or the products at torch's rate for the dtype.
            least = max(c.get("bytes", 0) / floor, c.get("flops", 0) / rates.get(dtype, float("inf")))
            entry = dict(dtype=str(dtype).split(".")[1], kernel=plan.text(0), us=round(seconds * 1e6, 2), floor_us=round(least * 1e6, 2),
                         of_floor=round(least / seconds, 3), torch_us=theirs and round(theirs * 1e6, 2), workspace_mib=round(plan.workspace.numel() / 2 ** 20, 1),
                         error=worst, same_bits=same, repeats=c.get("repeats", REPEATS), **others)
            results.setdefault(family, {})[label] = entry
            print(f"{label:48} {entry['us']:10.1f} us  {entry['of_floor']:5.2f} of floor  torch {entry['torch_us'] or '-':>10}  {' '.join(f'{k} {v}' for k, v in others.items())}  error {worst:.1e}"
                  f"{'' if ok else '  OTHER BITS' if worst <= limit else '  WRONG'}", flush=True)
        except Exception as e:  # the other cases still count
            bad += 1
            print(f"{label:40} FAILED: {e}", flush=True)
    if a.out:
        for family, entries in results.items():
            path = pathlib.Path(a.out) / f"{family}_{'h200' if 'H200' in card else card.lower().replace(' ', '_')}.json"
            path.write_text(json.dumps(dict(card=card, copy_tb_s=round(floor / 1e12, 3), matrix_tflop_s={str(k).split(".")[1]: round(v / 1e12, 1) for k, v in rates.items()},
                                            cases=entries), indent=1) + "\n")
    print(f"{bad} of the cases are wrong" if bad else "all right")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
