"""The model that `baracuda train` trains, written again in JAX from its definition, in float64.

It shares nothing with the library but the file format and the definition: decoder layers of RMSNorm, rotary positions
(half-split pairing), grouped-query causal attention and SwiGLU; mean cross entropy; AdamW with decoupled decay on
matrices, global norm clipping, linear warm-up and cosine decay; sequences drawn by the counter of cli/train/data.hpp.
Weights come from the file that `baracuda train --save-init` wrote, settings from its metadata. Weight names and layouts
are those of Llama checkpoints: y = x W^T.

  llama_reference.py INIT.safetensors TEXT --steps 20 --gradients OUT.safetensors     prints `step N loss X`
"""

import argparse
import math

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

jax.config.update("jax_enable_x64", True)

MASK64 = (1 << 64) - 1


def load(path):
    """Weights as float64, settings as numbers."""
    with safe_open(path, framework="numpy") as f:
        metadata = f.metadata()
        weights = {name: jnp.asarray(f.get_tensor(name), jnp.float64) for name in f.keys()}
    settings = {}
    for key, value in metadata.items():
        if key.startswith("settings."):
            if value in ("true", "false"):
                value = value == "true"
            elif key != "settings.dtype":
                value = float(value) if any(c in value for c in ".e") else int(value)
            settings[key.removeprefix("settings.")] = value
    return weights, settings


# --- data


def mix(a, b):
    v = (a + 0x9E3779B97F4A7C15 * (b + 1)) & MASK64
    v = ((v ^ (v >> 30)) * 0xBF58476D1CE4E5B9) & MASK64
    v = ((v ^ (v >> 27)) * 0x94D049BB133111EB) & MASK64
    return v ^ (v >> 31)


def permute(i, n, key):
    """A bijection of [0, n): Feistel rounds on an even number of bits, repeated until the value is below n."""
    if n <= 1:
        return i
    half = ((n - 1).bit_length() + 1) // 2
    low = (1 << half) - 1
    while True:
        left, right = i >> half, i & low
        for r in range(4):
            left, right = right, left ^ (mix(mix(key, r), right) & low)
        i = left << half | right
        if i < n:
            return i


def training_text(path, context):
    data = open(path, "rb").read().removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n")
    held_out = min(len(data) // 20, 64 << 10)
    return np.frombuffer(data[: len(data) - held_out] if held_out >= context + 1 else data, np.uint8)


def batch_of(text, step, s):
    """Inputs and targets of step 1, 2, ...; each [batch, context]."""
    context, batch = s["context"], s["batch"]
    windows = max(1, len(text) // context - 1)
    slack = min(len(text) - 1 - windows * context, context - 1)
    rows = []
    for i in range((step - 1) * batch, step * batch):
        key = mix(s["seed"], i // windows)
        start = mix(key, 4) % (slack + 1) + permute(i % windows, windows, key) * context
        rows.append(text[start : start + context + 1])
    rows = np.stack(rows).astype(np.int32)
    return rows[:, :-1], rows[:, 1:]


# --- model


def rms_norm(x, w, eps):
    return x / jnp.sqrt(jnp.mean(x * x, -1, keepdims=True) + eps) * w


def rope(x, theta):
    """x [batch, time, heads, d]: pairs (i, i + d/2) turn by time * theta^(-2i/d)."""
    time, d = x.shape[1], x.shape[-1]
    angle = jnp.arange(time)[:, None] * theta ** (-jnp.arange(0, d, 2) / d)
    cos, sin = jnp.cos(angle)[None, :, None, :], jnp.sin(angle)[None, :, None, :]
    a, b = x[..., : d // 2], x[..., d // 2 :]
    return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], -1)


def attention(q, k, v):
    """q [batch, time, heads, d], k and v with fewer heads: query head h reads key head h * kv_heads // heads."""
    time, group = q.shape[1], q.shape[2] // k.shape[2]
    k, v = jnp.repeat(k, group, 2), jnp.repeat(v, group, 2)
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / math.sqrt(q.shape[-1])
    scores = jnp.where(jnp.tril(jnp.ones((time, time), bool)), scores, -jnp.inf)
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


def loss_of(w, x, y, s):
    batch, time = x.shape
    h = w["model.embed_tokens.weight"][x]
    for layer in range(s["layers"]):
        p = lambda name: w[f"model.layers.{layer}.{name}.weight"]
        a = rms_norm(h, p("input_layernorm"), s["norm_eps"])
        q, k, v = (
            (a @ p(f"self_attn.{n}_proj").T).reshape(batch, time, heads, s["width"] // s["heads"])
            for n, heads in (("q", s["heads"]), ("k", s["kv_heads"]), ("v", s["kv_heads"]))
        )
        o = attention(rope(q, s["rope_theta"]), rope(k, s["rope_theta"]), v)
        h = h + o.reshape(batch, time, s["width"]) @ p("self_attn.o_proj").T
        a = rms_norm(h, p("post_attention_layernorm"), s["norm_eps"])
        h = h + (jax.nn.silu(a @ p("mlp.gate_proj").T) * (a @ p("mlp.up_proj").T)) @ p("mlp.down_proj").T
    h = rms_norm(h, w["model.norm.weight"], s["norm_eps"])
    head = w["model.embed_tokens.weight"] if s["tied"] else w["lm_head.weight"]
    logits = h @ head.T
    return jnp.mean(jax.nn.logsumexp(logits, -1) - jnp.take_along_axis(logits, y[..., None], -1)[..., 0])


# --- optimisation


def learning_rate(step, s):
    if step <= s["warmup"]:
        return s["lr"] * step / s["warmup"]
    progress = (step - s["warmup"]) / (s["steps"] - s["warmup"]) if s["steps"] > s["warmup"] else 1
    return s["lr"] * (s["lr_floor"] + (1 - s["lr_floor"]) * 0.5 * (1 + math.cos(math.pi * progress)))


def adamw(w, g, m, v, step, s):
    norm = jnp.sqrt(sum(jnp.sum(x * x) for x in g.values()))
    scale = jnp.minimum(1.0, s["clip"] / (norm + 1e-6)) if s["clip"] > 0 else 1.0
    lr = learning_rate(step, s)
    for name in w:
        x = g[name] * scale
        m[name] = s["beta1"] * m[name] + (1 - s["beta1"]) * x
        v[name] = s["beta2"] * v[name] + (1 - s["beta2"]) * x * x
        update = m[name] / (1 - s["beta1"] ** step) / (jnp.sqrt(v[name] / (1 - s["beta2"] ** step)) + s["adam_eps"])
        decay = s["weight_decay"] if w[name].ndim >= 2 else 0.0
        w[name] = w[name] - lr * (update + decay * w[name])


def train(init, text_path, steps):
    """Losses of the first steps and the gradients of the first."""
    w, s = load(init)
    text = training_text(text_path, s["context"])
    value_and_grad = jax.jit(jax.value_and_grad(lambda w, x, y: loss_of(w, x, y, s)))
    m = {name: jnp.zeros_like(x) for name, x in w.items()}
    v = {name: jnp.zeros_like(x) for name, x in w.items()}
    losses, first = [], None
    for step in range(1, steps + 1):
        x, y = batch_of(text, step, s)
        loss, g = value_and_grad(w, jnp.asarray(x), jnp.asarray(y))
        losses.append(float(loss))
        first = first or {name: np.asarray(value) for name, value in g.items()}
        adamw(w, g, m, v, step, s)
    return losses, first


if __name__ == "__main__":
    args = argparse.ArgumentParser()
    args.add_argument("init")
    args.add_argument("text")
    args.add_argument("--steps", type=int, default=20)
    args.add_argument("--gradients")
    a = args.parse_args()
    losses, gradients = train(a.init, a.text, a.steps)
    for n, loss in enumerate(losses, 1):
        print(f"step {n} loss {loss!r}")
    if a.gradients:
        save_file({k: np.ascontiguousarray(g) for k, g in gradients.items()}, a.gradients)
