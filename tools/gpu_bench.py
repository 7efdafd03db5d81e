#!/usr/bin/env python3
"""gpu_bench.py LIBRARY [--out DIR] [NAME...]: correctness on fresh random data and times on the GPU at hand, beside torch.

Each case: our plan on torch's tensors, outputs poisoned, compared with the formula in float64 on the same card; the same bits in
REPEATS runs; then the median time of a run from CUDA graphs that hold several, torch's the same way. Floors are measured in the
same call: a device-to-device copy (bytes read plus written) and torch's matrix product per dtype. Prints one line a case and
writes DIR/FAMILY_CARD.json."""
import argparse
import json
import pathlib
import statistics
import sys

import torch

from baracuda_ctypes import Library

sys.path.insert(0, str(pathlib.Path(__file__).parent))
REPEATS = 100
DEVICE = torch.device("cuda:0")


def timed(f, inner=10, rounds=15):
    """Median seconds of one f(), from a graph of `inner` of them."""
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for _ in range(3):
            f()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(inner):
            f()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    times = []
    for _ in range(rounds):
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / inner / 1e3)
    return statistics.median(times)


def copy_bandwidth():
    x = torch.empty(1 << 28, dtype=torch.float32, device=DEVICE).normal_()
    y = torch.empty_like(x)
    return 2 * x.numel() * 4 / timed(lambda: y.copy_(x))


def matrix_rate(dtype, n=8192):
    a, b = (torch.randn(n, n, device=DEVICE).to(dtype) for _ in range(2))
    out = torch.empty(n, n, dtype=dtype, device=DEVICE)
    return 2 * n ** 3 / timed(lambda: torch.mm(a, b, out=out), inner=3)


CASES = []


def case(family, name, dtypes):
    def add(f):
        for dtype in dtypes:
            CASES.append((family, name, dtype, f))
        return f
    return add


HALVES_AND_F32 = (torch.bfloat16, torch.float16, torch.float32)
ALL = HALVES_AND_F32 + (torch.float64,)


def normal(*shape, dtype, scale=1.0):
    return (torch.randn(*shape, device=DEVICE, dtype=torch.float32) * scale).to(dtype)


# A case gives: op, fields, arguments, outputs {name: reference in f64}, bytes moved, torch's function or None, tolerance.
@case("gated", "swiglu", ALL)
def swiglu(dtype):
    n = (16384, 4096)
    gate, up = normal(*n, dtype=dtype), normal(*n, dtype=dtype)
    y = torch.empty_like(gate)
    g, u = gate.double(), up.double()
    return dict(op="gated", fields=dict(kind="swiglu", dtype=dtype, shape=n), args=dict(gate=gate, up=up, y=y), out=dict(y=g * torch.sigmoid(g) * u),
                bytes=3 * y.nbytes, torch=lambda: torch.nn.functional.silu(gate) * up)


@case("gated", "swiglu_backward", ALL)
def swiglu_backward(dtype):
    n = (16384, 4096)
    dy, gate, up = (normal(*n, dtype=dtype) for _ in range(3))
    dgate, dup = torch.empty_like(gate), torch.empty_like(up)
    g, s = gate.double(), torch.sigmoid(gate.double())
    return dict(op="gated_backward", fields=dict(kind="swiglu", dtype=dtype, shape=n), args=dict(dy=dy, gate=gate, up=up, dgate=dgate, dup=dup),
                out=dict(dgate=dy.double() * up.double() * s * (1 + g * (1 - s)), dup=dy.double() * g * s), bytes=5 * dy.nbytes, torch=None)


def rms_case(rows, n):
    def make(dtype):
        x, w = normal(rows, n, dtype=dtype), normal(n, dtype=dtype)
        y = torch.empty_like(x)
        h = x.double()
        want = h * torch.rsqrt((h * h).mean(-1, keepdim=True) + 1e-6) * w.double()
        return dict(op="rms_norm", fields=dict(dtype=dtype, shape=(rows, n)), args=dict(x=x, weight=w, y=y), out=dict(y=want), bytes=2 * x.nbytes,
                    torch=lambda: torch.nn.functional.rms_norm(x, (n,), w, 1e-6))
    return make


def rms_backward_case(rows, n):
    def make(dtype):
        x, w, dy = normal(rows, n, dtype=dtype), normal(n, dtype=dtype), normal(rows, n, dtype=dtype)
        h, g = x.double(), dy.double() * w.double()
        rstd = torch.rsqrt((h * h).mean(-1, keepdim=True) + 1e-6)
        xhat = h * rstd
        dx, dw = torch.empty_like(x), torch.empty_like(w)
        kept = rstd.squeeze(-1).to(torch.float64 if dtype == torch.float64 else torch.float32)
        xt, wt = x.clone().requires_grad_(), w.clone().requires_grad_()
        yt = torch.nn.functional.rms_norm(xt, (n,), wt, 1e-6)
        return dict(op="rms_norm_backward", fields=dict(dtype=dtype, shape=(rows, n)), args=dict(dy=dy, x=x, weight=w, rstd=kept, dx=dx, dweight=dw),
                    out=dict(dx=rstd * (g - xhat * (g * xhat).mean(-1, keepdim=True)), dweight=(dy.double() * xhat).sum(0)), bytes=3 * x.nbytes,
                    torch=lambda: torch.autograd.grad(yt, (xt, wt), dy, retain_graph=True))
    return make


for _rows, _n in ((16384, 4096), (262144, 64), (65536, 1024), (64, 262144), (4099, 4097)):
    case("norm", f"rms_norm {_rows}x{_n}", HALVES_AND_F32)(rms_case(_rows, _n))
    case("norm", f"rms_norm_backward {_rows}x{_n}", HALVES_AND_F32)(rms_backward_case(_rows, _n))


def random_case(kind, check):
    def make(dtype):
        n = 1 << 27
        y = torch.empty(n, dtype=dtype, device=DEVICE)
        out = torch.empty_like(y)
        return dict(op=f"random_{kind}", fields=dict(dtype=dtype, shape=(n,)), args=dict(y=y, seed=42, offset=0), out={}, moments=check, bytes=y.nbytes,
                    torch=(lambda: out.normal_()) if kind == "normal" else (lambda: out.uniform_()))
    return make


case("random", "uniform", HALVES_AND_F32)(random_case("uniform", (0.5, 1 / 12)))
case("random", "normal", HALVES_AND_F32)(random_case("normal", (0.0, 1.0)))

EPS = {torch.bfloat16: 2.0 ** -8, torch.float16: 2.0 ** -11, torch.float32: 2.0 ** -23, torch.float64: 2.0 ** -52}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("library")
    p.add_argument("names", nargs="*", help="families; all by default")
    p.add_argument("--out", default="")
    a = p.parse_args()
    library = Library(a.library)
    card = torch.cuda.get_device_name(0)
    floor = copy_bandwidth()
    rates = {str(d).split(".")[1]: matrix_rate(d) for d in (torch.bfloat16, torch.float32)}
    print(f"{card}: copy {floor / 1e12:.2f} TB/s, matrix " + ", ".join(f"{k} {v / 1e12:.0f} TFLOP/s" for k, v in rates.items()))
    results, bad = {}, 0
    for family, name, dtype, make in CASES:
        if a.names and family not in a.names:
            continue
        torch.cuda.empty_cache()
        label = f"{name} {str(dtype).split('.')[1]}"
        try:
            c = make(dtype)
            plan = library.plan(c["op"], DEVICE, **c["fields"])
            run = plan.bind(**c["args"])
            written = {k: c["args"][k] for k in c["out"]} or {"y": c["args"]["y"]}
            for t in written.values():
                t.fill_(float("nan"))
            run()
            torch.cuda.synchronize()
            worst = 0.0
            for k, want in c["out"].items():
                got = written[k].double()
                error = ((got - want).norm() / want.norm()).item()
                worst = max(worst, error if error == error else float("inf"))
            if "moments" in c:
                mean, var = written["y"].double().mean().item(), written["y"].double().var().item()
                worst = max(abs(mean - c["moments"][0]), abs(var - c["moments"][1]))
            limit = 2 * EPS[dtype] + 1e-6 if "moments" not in c else 2e-3
            first = {k: t.clone().view(torch.uint8) for k, t in written.items()}
            same = True
            for _ in range(REPEATS):
                run()
                same = same and all(bool((t.view(torch.uint8) == first[k]).all()) for k, t in written.items())
            seconds = timed(run)
            theirs = timed(c["torch"]) if c["torch"] else None
            ok = worst <= limit and same
            bad += not ok
            entry = dict(dtype=str(dtype).split(".")[1], kernel=plan.text(0), us=round(seconds * 1e6, 2), floor_us=round(c["bytes"] / floor * 1e6, 2),
                         of_floor=round(c["bytes"] / floor / seconds, 3), torch_us=theirs and round(theirs * 1e6, 2), error=worst, same_bits=same)
            results.setdefault(family, {})[label] = entry
            print(f"{label:40} {entry['us']:9.1f} us  {entry['of_floor']:5.2f} of copy  torch {entry['torch_us'] or '-':>9}  error {worst:.1e}"
                  f"{'' if ok else '  WRONG' if same else '  OTHER BITS'}", flush=True)
        except Exception as e:  # the other cases still count
            bad += 1
            print(f"{label:40} FAILED: {e}", flush=True)
    if a.out:
        for family, entries in results.items():
            path = pathlib.Path(a.out) / f"{family}_{'h200' if 'H200' in card else card.lower().replace(' ', '_')}.json"
            path.write_text(json.dumps(dict(card=card, copy_tb_s=round(floor / 1e12, 3), matrix_tflop_s={k: round(v / 1e12, 1) for k, v in rates.items()},
                                            repeats=REPEATS, cases=entries), indent=1) + "\n")
    print(f"{bad} of the cases are wrong" if bad else "all right")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
