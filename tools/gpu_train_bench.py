#!/usr/bin/env python3
"""gpu_train_bench.py BARACUDA TEXT [--out DIR]: tokens/s of `baracuda train --preset 124m` in bf16 beside the same model in torch.

The model: embedding; 12 layers of RMSNorm, half-split rotary positions, causal attention and SwiGLU, 768 wide; RMSNorm; a tied head
over 50304 tokens with cross entropy; T 1024. Both sides hold bf16 weights, f32 masters and f32 moments, clip gradients to a global
norm and take AdamW steps. Torch runs eager (flash attention, fused AdamW) and under torch.compile. STEPS steps after WARM are timed:
ours by the lines that the program prints, one when a step is done, torch's by events. Then once more with each run of a plan waited
for: where the time goes."""
import argparse
import json
import pathlib
import statistics
import subprocess
import time

LAYERS, WIDTH, HEADS, KV_HEADS, HIDDEN, CONTEXT, VOCABULARY = 12, 768, 12, 12, 2048, 1024, 50304
THETA, EPS, CLIP, LR, BETAS, DECAY = 10000.0, 1e-5, 1.0, 6e-4, (0.9, 0.95), 0.1
WARM, STEPS = 3, 10


def ours(baracuda, text, batch, *more):
    """Seconds of each timed step, the losses, what the program printed after them."""
    command = [baracuda, "train", "--preset", "124m", "--dtype", "bf16", "--device", "cuda", "--batch", str(batch), "--data", text, "--stop-after", str(WARM + STEPS),
               "--checkpoint", "", "--svg", "", "--sample", "0", *more]
    p = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1)
    at, losses, rest = [], [], []
    for line in p.stdout:
        if line.startswith("step "):
            at.append(time.perf_counter())
            losses.append(float(line.split()[3]))
        else:
            rest.append(line)
    if p.wait():
        raise RuntimeError(p.stderr.read().strip())
    return [b - a for a, b in zip(at[WARM - 1:], at[WARM:])], losses, rest


def where(baracuda, text, batch):
    """{kernel: milliseconds of a step}."""
    found = {}
    for line in ours(baracuda, text, batch, "--time-kernels")[2]:
        words = line.split()
        if "ms a step" in line and float(words[words.index("ms") - 1]) > 0:
            found[words[0]] = found.get(words[0], 0) + float(words[words.index("ms") - 1])
    return dict(sorted(found.items(), key=lambda kv: -kv[1]))


def torch_model():
    import torch
    from torch import nn
    from torch.nn import functional as F

    head_dim = WIDTH // HEADS

    def rotate(x, cos, sin):
        a, b = x.chunk(2, dim=-1)
        return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.attention_norm, self.mlp_norm = (nn.Parameter(torch.ones(WIDTH)) for _ in range(2))
            self.qkv = nn.Linear(WIDTH, (HEADS + 2 * KV_HEADS) * head_dim, bias=False)
            self.out = nn.Linear(WIDTH, WIDTH, bias=False)
            self.gate_up = nn.Linear(WIDTH, 2 * HIDDEN, bias=False)
            self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

        def forward(self, x, cos, sin):
            b, t, _ = x.shape
            qkv = self.qkv(F.rms_norm(x, (WIDTH,), self.attention_norm, EPS)).view(b, t, HEADS + 2 * KV_HEADS, head_dim).transpose(1, 2)
            q, k, v = qkv.split((HEADS, KV_HEADS, KV_HEADS), dim=1)
            a = F.scaled_dot_product_attention(rotate(q, cos, sin), rotate(k, cos, sin), v, is_causal=True, enable_gqa=HEADS != KV_HEADS)
            x = x + self.out(a.transpose(1, 2).reshape(b, t, WIDTH))
            gate, up = self.gate_up(F.rms_norm(x, (WIDTH,), self.mlp_norm, EPS)).chunk(2, dim=-1)
            return x + self.down(F.silu(gate) * up)

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(VOCABULARY, WIDTH)
            self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
            self.norm = nn.Parameter(torch.ones(WIDTH))
            for p in self.parameters():
                if p.dim() == 2:
                    nn.init.normal_(p, std=0.02)
            angle = torch.arange(CONTEXT)[:, None] * THETA ** (-torch.arange(0, head_dim, 2) / head_dim)
            self.register_buffer("cos", angle.cos()), self.register_buffer("sin", angle.sin())

        def forward(self, tokens, targets):
            x = self.embedding(tokens)
            for layer in self.layers:
                x = layer(x, self.cos, self.sin)
            logits = F.linear(F.rms_norm(x, (WIDTH,), self.norm, EPS), self.embedding.weight)
            return F.cross_entropy(logits.float().view(-1, VOCABULARY), targets.view(-1))

    torch.manual_seed(1)
    with torch.device("cuda"):
        return Llama().bfloat16()


class Trainer:
    """The model with f32 masters; step() queues one step and gives the loss."""

    def __init__(self, batch, text, compiled):
        import torch
        self.torch, self.batch = torch, batch
        model = torch_model()
        self.parameters = list(model.parameters())
        self.masters = [p.detach().float().clone().requires_grad_() for p in self.parameters]
        for m in self.masters:
            m.grad = torch.zeros_like(m)
        groups = [{"params": [m for m in self.masters if m.dim() == 2], "weight_decay": DECAY}, {"params": [m for m in self.masters if m.dim() == 1], "weight_decay": 0.0}]
        self.adamw = torch.optim.AdamW(groups, lr=LR, betas=BETAS, fused=True)
        self.loss = torch.compile(model) if compiled else model
        self.text = torch.frombuffer(bytearray(pathlib.Path(text).read_bytes()), dtype=torch.uint8).long().cuda()

    def step(self, n):
        torch = self.torch
        start = torch.arange(self.batch, device="cuda") * CONTEXT + n
        at = (start[:, None] + torch.arange(CONTEXT + 1, device="cuda")) % self.text.numel()
        sequences = self.text[at]
        for p in self.parameters:
            p.grad = None
        loss = self.loss(sequences[:, :-1].contiguous(), sequences[:, 1:].contiguous())
        loss.backward()
        with torch.no_grad():
            torch._foreach_copy_([m.grad for m in self.masters], [p.grad for p in self.parameters])
            torch.nn.utils.clip_grad_norm_(self.masters, CLIP, foreach=True)
            self.adamw.step()
            torch._foreach_copy_(self.parameters, self.masters)
        return loss.detach()


def theirs(text, batch, compiled):
    import torch
    trainer = Trainer(batch, text, compiled)
    losses = [trainer.step(n) for n in range(WARM)]
    events = [torch.cuda.Event(enable_timing=True) for _ in range(STEPS + 1)]
    torch.cuda.synchronize()
    events[0].record()
    for n in range(STEPS):
        losses.append(trainer.step(WARM + n))
        events[n + 1].record()
    torch.cuda.synchronize()
    return [a.elapsed_time(b) / 1e3 for a, b in zip(events, events[1:])], [x.item() for x in losses]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("baracuda")
    p.add_argument("text")
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--only", default="baracuda,torch.compile,torch", help="which sides, with commas between")
    p.add_argument("--out", default="")
    a = p.parse_args()
    sides = {"baracuda": lambda: ours(a.baracuda, a.text, a.batch)[:2], "torch.compile": lambda: theirs(a.text, a.batch, True), "torch": lambda: theirs(a.text, a.batch, False)}
    results = {}
    for side in a.only.split(","):
        try:
            times, losses = sides[side]()
        except Exception as e:  # the other sides still count
            print(f"{side:14} FAILED: {e}", flush=True)
            continue
        seconds = statistics.median(times)
        results[side] = dict(ms=round(seconds * 1e3, 2), tokens_per_second=round(a.batch * CONTEXT / seconds), first_loss=losses[0], last_loss=losses[-1])
        print(f"{side:14} {seconds * 1e3:8.1f} ms a step of {a.batch * CONTEXT} tokens, {a.batch * CONTEXT / seconds:10.0f} tokens/s, loss {losses[0]:.3f} to {losses[-1]:.3f}", flush=True)
    if "baracuda" in results:
        results["baracuda"]["where_ms"] = where(a.baracuda, a.text, a.batch)
        for kernel, ms in results["baracuda"]["where_ms"].items():
            print(f"  {kernel:44} {ms:8.3f} ms")
    if a.out:
        import torch
        card = torch.cuda.get_device_name(0)
        path = pathlib.Path(a.out) / f"train_{'h200' if 'H200' in card else card.lower().replace(' ', '_')}.json"
        path.write_text(json.dumps(dict(card=card, torch=torch.__version__, preset="124m", dtype="bf16", batch=a.batch, context=CONTEXT, steps=STEPS, results=results), indent=1) + "\n")
    return 0 if len(results) == len(a.only.split(",")) else 1


if __name__ == "__main__":
    raise SystemExit(main())
