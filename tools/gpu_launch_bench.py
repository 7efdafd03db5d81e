#!/usr/bin/env python3
"""gpu_launch_bench.py PROGRAM [--out DIR]: what plans cost the host on the GPU at hand, beside torch eager.

PROGRAM is launch_bench. The plans are those of a small decoder (bf16, 64 tokens, 512 wide), 100 of them: each alone (a run, its
checks, as many bare launches; torch's host time for the same work, through Python), all launched one by one, and all in one graph.
Times of the host are those of the fastest tenth of batches after each of which the device is waited for. Writes DIR/launch_CARD.json."""
import argparse
import json
import pathlib
import statistics
import subprocess
import time

import torch

F = torch.nn.functional
DEVICE = torch.device("cuda:0")
TOKENS, WIDE, HEADS, INNER, VOCABULARY, LAYERS = 64, 512, 8, 1408, 4096, 6


def zeros(*shape, dtype=torch.bfloat16):
    return torch.zeros(*shape, dtype=dtype, device=DEVICE)


def product(n, k):
    a, w = zeros(TOKENS, k), zeros(n, k)
    return f"gemm dtype=bf16 m={TOKENS} n={n} k={k} trans_b=true", lambda: F.linear(a, w)


def rope():
    x, c, s = zeros(1, HEADS, TOKENS, 64), zeros(TOKENS, 64), zeros(TOKENS, 64)
    return f"rope dtype=bf16 shape=1,{HEADS},{TOKENS},64", lambda: x * c + torch.cat((-x[..., 32:], x[..., :32]), -1) * s


def attention():
    q, k, v = (zeros(1, HEADS, TOKENS, 64) for _ in range(3))
    return (f"flash_sdpa dtype=bf16 batch=1 heads={HEADS} q_len={TOKENS} k_len={TOKENS} head_dim=64 causal=true",
            lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True))


def of_rows(line, f, *more):
    x = zeros(TOKENS, WIDE)
    return line.format(shape=f"{TOKENS},{WIDE}"), lambda: f(x, *more)


def norm():
    w = zeros(WIDE)
    return of_rows("rms_norm dtype=bf16 shape={shape} +weight", lambda x: F.rms_norm(x, (WIDE,), w, 1e-6))


def decoder():
    ids, table = zeros(TOKENS, dtype=torch.int64), zeros(VOCABULARY, WIDE)
    gate, up, logits = zeros(TOKENS, INNER), zeros(TOKENS, INNER), zeros(TOKENS, VOCABULARY)
    add = of_rows("binary kind=add dtype=bf16 a={shape} b={shape}", lambda x: x + x)
    swiglu = f"gated kind=swiglu dtype=bf16 shape={TOKENS},{INNER}", lambda: F.silu(gate) * up
    layer = [norm(), product(WIDE, WIDE), product(WIDE, WIDE), product(WIDE, WIDE), rope(), rope(), attention(), product(WIDE, WIDE), add,
             norm(), product(INNER, WIDE), product(INNER, WIDE), swiglu, product(WIDE, INNER), add]
    end = [norm(), product(VOCABULARY, WIDE), (f"cast dtype=bf16 to=f32 shape={TOKENS},{VOCABULARY}", lambda: logits.float()),
           (f"softmax dtype=bf16 shape={TOKENS},{VOCABULARY}", lambda: torch.softmax(logits, -1)),
           (f"reduce kind=sum dtype=bf16 shape={TOKENS},{VOCABULARY} axes=1", lambda: logits.sum(1)),
           (f"scan kind=cumsum dtype=bf16 shape={TOKENS},{VOCABULARY}", lambda: logits.cumsum(1)),
           (f"arg_reduce kind=argmax dtype=bf16 shape={TOKENS},{VOCABULARY} axis=1", lambda: logits.argmax(1)),
           (f"permute dtype=bf16 shape={TOKENS},{VOCABULARY} axes=1,0", lambda: logits.t().contiguous()),
           (f"layer_norm dtype=bf16 shape={TOKENS},{WIDE}", of_rows("{shape}", lambda x: F.layer_norm(x, (WIDE,)))[1])]
    first = f"embedding dtype=bf16 vocabulary={VOCABULARY} width={WIDE} indices={TOKENS}", lambda: F.embedding(ids, table)
    return [first] + layer * LAYERS + end


def host_us(f, batch=32, rounds=51):
    for _ in range(20):
        f()
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(batch):
            f()
        times.append((time.perf_counter() - begin) / batch * 1e6)
    torch.cuda.synchronize()
    return statistics.quantiles(times, n=10)[0]


def replay_us(f, replays=20, rounds=15):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        f()
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(replays):
            graph.replay()
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / replays * 1e6)
    return statistics.median(times)


@torch.no_grad()
def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("program")
    p.add_argument("--out", default="")
    a = p.parse_args()
    plans = decoder()
    run = subprocess.run([a.program] + [line for line, _ in plans], capture_output=True, text=True)
    if run.returncode:
        print(run.stdout[-2000:], run.stderr[-2000:])
        return 1
    ours = json.loads(run.stdout)
    card = torch.cuda.get_device_name(0)
    print(f"{card}: the half loads in {ours['load_ms']:.1f} ms, the device opens in {ours['open_ms']:.1f} ms")
    print("bare, ns: " + ", ".join(f"{k} {v}" for k, v in ours["bare"].items()))
    print(f"{'plan':36} {'select us':>9} {'first us':>9} {'run us':>7} {'checks':>7} {'bare':>7} {'above':>7} {'torch us':>8}  queues")
    seen = {}
    for (line, f), c in zip(plans, ours["cases"]):
        if line in seen:
            continue
        seen[line] = dict(c, torch_us=round(host_us(f), 2))
        print(f"{c['kernel']:36} {c['select_us']:9.0f} {c['first_us']:9.0f} {c['run_ns'] / 1e3:7.2f} {c['checks_ns'] / 1e3:7.2f} {c['bare_ns'] / 1e3:7.2f} "
              f"{(c['run_ns'] - c['bare_ns']) / 1e3:7.2f} {seen[line]['torch_us']:8.2f}  {c['kernels']} kernels {c['fills']} fills {c['copies']} copies   {line}", flush=True)

    def everything():
        for _, f in plans:
            f()
    whole = dict(ours["all"], torch_host_us=round(host_us(everything, 1), 1), torch_replay_us=round(replay_us(everything), 1))
    print(f"all {whole['plans']} plans: host {whole['host_us']} us, torch {whole['torch_host_us']}; from a graph {whole['replay_us']} us, torch {whole['torch_replay_us']}")
    if a.out:
        name = "h200" if "H200" in card else card.lower().replace(" ", "_")
        (pathlib.Path(a.out) / f"launch_{name}.json").write_text(json.dumps(dict(card=card, load_ms=ours["load_ms"], open_ms=ours["open_ms"], bare_ns=ours["bare"], plans=list(seen.values()), all=whole), indent=1) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
