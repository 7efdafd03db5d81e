#!/usr/bin/env python3
"""bench_others.py THREADS < NAMES: what JAX and NumPy need for the benchmarks of these names (op/dtype/extents/words), on
that many processors. Writes {"times": {name: {"jax_ms": .., "numpy_ms": ..}}, "versions": ..}. Names without a
counterpart are left out; NumPy stands only where one or a few calls do it. Everything is compiled and warm, the
best of several runs counts. A backward gets what its forward saved, as ours does."""
import json
import math
import os
import re
import sys
import time

THREADS = int(sys.argv[1])
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:THREADS])
for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = str(THREADS)
os.environ["JAX_PLATFORMS"] = "cpu"

import numpy as np

try:
    import jax
    import jax.numpy as jnp
except ImportError:
    jax = None

SECONDS, RUNS = 0.4, 15


def best(run):
    run(), run()
    times, end = [], time.perf_counter() + SECONDS
    while len(times) < 3 or (len(times) < RUNS and time.perf_counter() < end):
        t = time.perf_counter()
        run()
        times.append(time.perf_counter() - t)
    return 1e3 * min(times)


def normal(shape, seed=1):
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def numbers(shape, dtype, seed=1):
    """Normal in both parts where the dtype is complex."""
    return normal(shape, seed) + np.complex64(1j) * normal(shape, seed + 100) if dtype.startswith("c") else normal(shape, seed)


class Name:
    def __init__(self, text):
        self.op, self.dtype, extents, *self.words = text.split("/")
        self.shape = tuple(int(e) for e in extents.split("x"))
        # Kernel and team are ours: rows that differ in them alone share the others' figure.
        self.words = [w for w in self.words if not w.startswith(("threads=", self.op + ".cpu.", "chunk="))]
        self.key = "/".join((self.op, self.dtype, extents, *self.words))

    def has(self, *words):
        return all(w in self.words for w in words)


# --- JAX: each returns a function without arguments that waits for its result
def j(shape, dtype, seed=1, scale=1.0):
    return jnp.asarray(numbers(shape, dtype, seed) * scale, dtype=JAX_DTYPES[dtype])


def jitted(f, *args):
    g = jax.jit(f)
    return lambda: jax.block_until_ready(g(*args))


def pulled_back(f, *args):
    """The backward alone: the forward's residuals are computed before."""
    y, back = jax.jit(lambda *a: jax.vjp(f, *a))(*args)
    dy = jax.tree.map(lambda t: jnp.asarray(numbers(t.shape, str(t.dtype), 9), dtype=t.dtype), y)
    g = jax.jit(lambda b, d: b(d))
    return lambda: jax.block_until_ready(g(back, dy))


def rms_norm(x, w):
    h = x.astype(jnp.float32)
    return (h * jax.lax.rsqrt(jnp.mean(h * h, -1, keepdims=True) + 1e-6) * w.astype(jnp.float32)).astype(x.dtype)


def jax_rms_norm(n, run):
    x, w = j(n.shape, n.dtype), j(n.shape[-1:], n.dtype, 2)
    if n.words == ["residual"]:
        def f(x, r, w):
            h = x + r
            return h, rms_norm(h, w)
        return run(f, x, j(n.shape, n.dtype, 3), w)
    return run(rms_norm, x, w) if not n.words else None


def standardized(x, axes, w, b):
    """LayerNorm, GroupNorm and BatchNorm: x, whose `axes` are normalised, with weight and bias shaped for it."""
    h = x.astype(jnp.float32)
    d = h - jnp.mean(h, axes, keepdims=True)
    y = d * jax.lax.rsqrt(jnp.mean(d * d, axes, keepdims=True) + 1e-5)
    return (y * w.astype(jnp.float32) + b.astype(jnp.float32)).astype(x.dtype)


def jax_layer_norm(n, run):
    return run(lambda x, w, b: standardized(x, -1, w, b), j(n.shape, n.dtype), j(n.shape[-1:], n.dtype, 2), j(n.shape[-1:], n.dtype, 3))


def jax_batch_norm(n, run):
    axes, vector = (0, *range(2, len(n.shape))), (1, n.shape[1], *(1 for _ in n.shape[2:]))
    return run(lambda x, w, b: standardized(x, axes, w.reshape(vector), b.reshape(vector)), j(n.shape, n.dtype), j((n.shape[1],), n.dtype, 2), j((n.shape[1],), n.dtype, 3))


def jax_batch_norm_inference(n):
    vector = (1, n.shape[1], *(1 for _ in n.shape[2:]))
    def f(x, w, b, mean, var):
        w, b, mean, var = (v.astype(jnp.float32).reshape(vector) for v in (w, b, mean, var))
        return ((x.astype(jnp.float32) - mean) * (jax.lax.rsqrt(var + 1e-5) * w) + b).astype(x.dtype)
    return jitted(f, j(n.shape, n.dtype), *(j((n.shape[1],), n.dtype, k) for k in (2, 3, 4)), jnp.ones((n.shape[1],), JAX_DTYPES[n.dtype]))


def jax_group_norm(n, run):
    groups, (samples, channels, *rest) = int(n.words[0].removeprefix("groups")), n.shape
    inside = (samples, groups, channels // groups, *rest)
    vector = (1, groups, channels // groups, *(1 for _ in rest))
    f = lambda x, w, b: standardized(x.reshape(inside), tuple(range(2, len(inside))), w.reshape(vector), b.reshape(vector)).reshape(n.shape)
    return run(f, j(n.shape, n.dtype), j((channels,), n.dtype, 2), j((channels,), n.dtype, 3))


def jax_softmax(n, run):
    f = {"softmax": jax.nn.softmax, "log_softmax": jax.nn.log_softmax}[n.words[0]]
    axis = int(n.words[1].removeprefix("axis"))
    return run(lambda x: f(x, axis=axis), j(n.shape, n.dtype))


def jax_gated(n, run):
    act = {"swiglu": jax.nn.silu, "geglu": lambda x: jax.nn.gelu(x, approximate=False)}[n.words[0]]
    f = lambda gate, up: (act(gate.astype(jnp.float32)) * up.astype(jnp.float32)).astype(gate.dtype)
    return run(f, j(n.shape, n.dtype), j(n.shape, n.dtype, 2))


def jax_rope(n, run):
    b, h, s, d = n.shape
    angle = np.arange(s)[:, None] * (10000.0 ** (-np.arange(0, d, 2) / d))[None, :]
    cos, sin = jnp.asarray(np.cos(angle), jnp.float32), jnp.asarray(np.sin(angle), jnp.float32)

    def f(x, cos=cos, sin=sin):
        v = x.astype(jnp.float32)
        a, c = (v[..., 0::2], v[..., 1::2]) if n.has("interleaved") else (v[..., : d // 2], v[..., d // 2:])
        y, z = a * cos - c * sin, c * cos + a * sin
        y = jnp.stack([y, z], -1).reshape(n.shape) if n.has("interleaved") else jnp.concatenate([y, z], -1)
        return y.astype(x.dtype)
    return None if n.has("heads_inside") else run(f, j(n.shape, n.dtype))


def indices(n):
    rng = np.random.default_rng(3)
    i = rng.integers(0, 50304, n.shape[0])
    return np.where(rng.integers(0, 2, n.shape[0]) == 1, i % 64, i) if n.has("skewed") else i


def jax_embedding(n):
    return jitted(lambda w, i: jnp.take(w, i, axis=0, mode="clip"), j((50304, n.shape[1]), n.dtype), jnp.asarray(indices(n)))


def jax_embedding_backward(n):
    return jitted(lambda dy, i: jnp.zeros((50304, n.shape[1]), dy.dtype).at[i].add(dy), j(n.shape, n.dtype), jnp.asarray(indices(n)))


def jax_adamw(n):
    if n.words:
        return None
    count, shape = n.shape[0], n.shape[1:]
    state = [[j(shape, n.dtype) for _ in range(count)]] + [[jnp.zeros(shape, jnp.float32) for _ in range(count)] for _ in range(2)]
    grads = [j(shape, n.dtype, 2, 0.01) for _ in range(count)]

    def step(p, g, m, v):
        g = g.astype(jnp.float32)
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        q = p.astype(jnp.float32)
        return (q * (1 - 1e-5) - 1e-3 * (m / 0.1) / (jnp.sqrt(v / 0.001) + 1e-8)).astype(p.dtype), m, v
    f = jax.jit(lambda p, m, v, g: [list(t) for t in zip(*(step(*each) for each in zip(p, g, m, v)))], donate_argnums=(0, 1, 2))
    def run():
        state[:] = f(*state, grads)
        jax.block_until_ready(state)
    return run


def jax_gemm(n):
    m, columns, k = n.shape
    ins, out = (n.dtype.split(">") * 2)[:2]
    subscripts = {"y=xW^T": "mk,nk->mn", "logits": "mk,nk->mn", "xW^T": "mk,nk->mn", "dW=dy^Tx": "km,kn->mn", "dW=dlogits^Tx": "km,kn->mn", "A^Tx": "km,kn->mn"}
    sub = subscripts.get(n.words[0], "mk,kn->mn")
    size = {"m": m, "n": columns, "k": k}
    a, b = ([size[c] for c in side] for side in sub.split("->")[0].split(","))
    return jitted(lambda x, y: jnp.einsum(sub, x, y, preferred_element_type=JAX_DTYPES[out]), j(a, ins), j(b, ins, 2))


def jax_attention(n, run):
    b, h, s, d = n.shape
    if n.words != ["causal"]:
        return None
    f = lambda q, k, v: jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return run(f, *(j((b, s, h, d), n.dtype, i) for i in (1, 2, 3)))


def token_losses(logits, target):
    z = logits.astype(jnp.float32)
    return jax.nn.logsumexp(z, axis=-1) - jnp.take_along_axis(z, target[:, None], axis=-1)[:, 0]


def jax_fused_loss(n):
    tokens, hidden, classes = n.shape
    if n.words not in ([], ["dx_dw"]):
        return None
    target = jnp.asarray(np.arange(tokens) * 7919 % classes)
    f = lambda x, w: jnp.mean(token_losses(jnp.einsum("td,vd->tv", x, w, preferred_element_type=jnp.float32), target))
    if n.words:
        f = jax.value_and_grad(f, (0, 1))
    return jitted(f, j((tokens, hidden), n.dtype), j((classes, hidden), n.dtype, 2, 1 / math.sqrt(hidden)))


def jax_cross_entropy(n, run):
    target = jnp.asarray(np.arange(n.shape[0]) * 7919 % n.shape[1])
    f = lambda z: jnp.mean(token_losses(z, target))
    return run(jax.value_and_grad(f) if n.has("dlogits") else f, j(n.shape, n.dtype))


UNARY = {"exp": "exp", "gelu": "gelu", "gelu_tanh": "gelu_tanh", "silu": "silu", "tanh": "tanh", "sigmoid": "sigmoid", "log": "log", "sqrt": "sqrt",
         "relu": "relu", "neg": "negative", "abs": "abs", "conj": "conj", "angle": "angle", "square": "square", "sin": "sin", "sinh": "sinh", "asin": "arcsin"}


def jax_unary(n, run):
    f = {"gelu": lambda x: jax.nn.gelu(x, approximate=False), "gelu_tanh": jax.nn.gelu, "silu": jax.nn.silu, "sigmoid": jax.nn.sigmoid,
         "relu": jax.nn.relu}.get(n.words[0]) or getattr(jnp, UNARY.get(n.words[0], "none"), None)
    return run(f, j(n.shape, n.dtype)) if f and len(n.words) == 1 else None


def jax_binary(n):
    f = {"add": jnp.add, "sub": jnp.subtract, "mul": jnp.multiply, "div": jnp.divide, "pow": jnp.power}.get(n.words[0])
    return jitted(f, j(n.shape, n.dtype), j(n.shape, n.dtype, 2)) if f and len(n.words) == 1 else None


def jax_cast(n):
    source, to = n.dtype.split(">")
    return jitted(lambda x: x.astype(JAX_DTYPES[to]), j(n.shape, source)) if source in JAX_DTYPES and to in JAX_DTYPES else None


def reduction(n, xp):
    """f(x) of a kind along axis0 or axis1; xp: numpy or jax.numpy."""
    axis = next((int(w[4:]) for w in n.words if re.fullmatch(r"axis\d", w)), None)
    kinds = {"norm2": lambda x: xp.sqrt(xp.sum(xp.square(x), axis=axis)), "var": lambda x: xp.var(x, axis=axis, ddof=1), "std": lambda x: xp.std(x, axis=axis, ddof=1),
             "logsumexp": (lambda x: jax.nn.logsumexp(x, axis=axis)) if xp is not np else None}
    if axis is None:
        return None
    f = getattr(xp, n.words[0], None)
    return kinds[n.words[0]] if n.words[0] in kinds else f and (lambda x: f(x, axis=axis))


def jax_reduction(n, run):
    f = reduction(n, jnp)
    return f and run(f, j(n.shape, n.dtype))


def numpy_reduction(n):
    f = reduction(n, np) if n.dtype in NUMPY_DTYPES else None
    x = f and normal(n.shape).astype(NUMPY_DTYPES[n.dtype])
    return f and (lambda: f(x))


def jax_scan(n, run):
    f = {"cumsum": jax.lax.cumsum, "cumprod": jax.lax.cumprod, "cummax": jax.lax.cummax, "logcumsumexp": jax.lax.cumlogsumexp}[n.words[0]]
    axis, product = int(n.words[1].removeprefix("axis")), n.words[0] == "cumprod"
    x = j(n.shape, n.dtype, 1, 0.01 if product else 1.0)
    return run(lambda x: f(x, axis=axis, reverse=n.has("reverse")), 1 + x if product else x) if not n.has("indices") else None


JAX = {
    "reduce": lambda n: jax_reduction(n, jitted), "reduce_backward": lambda n: jax_reduction(n, pulled_back), "arg_reduce": lambda n: jax_reduction(n, jitted),
    "rms_norm": lambda n: jax_rms_norm(n, jitted), "rms_norm_backward": lambda n: jax_rms_norm(n, pulled_back),
    "layer_norm": lambda n: jax_layer_norm(n, jitted), "layer_norm_backward": lambda n: jax_layer_norm(n, pulled_back),
    "group_norm": lambda n: jax_group_norm(n, jitted), "group_norm_backward": lambda n: jax_group_norm(n, pulled_back),
    "batch_norm": lambda n: jax_batch_norm(n, jitted), "batch_norm_backward": lambda n: jax_batch_norm(n, pulled_back),
    "batch_norm_inference": jax_batch_norm_inference,
    "softmax": lambda n: jax_softmax(n, jitted), "softmax_backward": lambda n: jax_softmax(n, pulled_back),
    "scan": lambda n: jax_scan(n, jitted), "scan_backward": lambda n: jax_scan(n, pulled_back),
    "gated": lambda n: jax_gated(n, jitted), "gated_backward": lambda n: jax_gated(n, pulled_back),
    "rope": lambda n: jax_rope(n, jitted), "rope_backward": lambda n: jax_rope(n, pulled_back),
    "embedding": jax_embedding, "embedding_backward": jax_embedding_backward, "adamw": jax_adamw,
    "global_norm": lambda n: jitted(lambda g: jnp.sqrt(sum(jnp.sum(jnp.square(x.astype(jnp.float32))) for x in g)), [j(n.shape[1:], n.dtype) for _ in range(n.shape[0])]),
    "gemm": jax_gemm, "flash_sdpa": lambda n: jax_attention(n, jitted), "flash_sdpa_backward": lambda n: jax_attention(n, pulled_back),
    "fused_linear_cross_entropy": jax_fused_loss, "cross_entropy": lambda n: jax_cross_entropy(n, jitted),
    "cross_entropy_backward": lambda n: jax_cross_entropy(n, pulled_back), "unary": lambda n: jax_unary(n, jitted),
    "unary_backward": lambda n: jax_unary(n, pulled_back), "binary": jax_binary, "cast": jax_cast,
    "copy": lambda n: jitted(lambda x: x.T, j(n.shape, n.dtype)) if n.has("transposed") else None,
}


# --- NumPy, results in place
def numpy_gemm(n):
    if n.dtype not in NUMPY_DTYPES:
        return None
    m, columns, k = n.shape
    t = NUMPY_DTYPES[n.dtype]
    what = n.words[0]
    a = normal((k, m)).astype(t).T if what in ("dW=dy^Tx", "dW=dlogits^Tx", "A^Tx") else normal((m, k)).astype(t)
    b = normal((columns, k), 2).astype(t).T if what in ("y=xW^T", "logits", "xW^T") else normal((k, columns), 2).astype(t)
    c = np.empty((m, columns), t)
    return lambda: np.matmul(a, b, out=c)


def numpy_elementwise(n, table):
    f = table.get(n.words[0] if n.words else "")
    if not f or len(n.words) != 1 or n.dtype not in NUMPY_DTYPES:
        return None
    x, y = (numbers(n.shape, n.dtype, seed).astype(NUMPY_DTYPES[n.dtype]) for seed in (1, 2))
    out = np.empty(n.shape, (f(x[:1], y[:1]) if f.nin == 2 else f(x[:1])).dtype)
    return (lambda: f(x, y, out=out)) if f.nin == 2 else (lambda: f(x, out=out))


def numpy_rms_norm(n):
    if n.words or n.dtype not in NUMPY_DTYPES:
        return None
    x, w, y = normal(n.shape), normal(n.shape[-1:], 2), np.empty(n.shape, np.float32)
    def run():
        scale = 1 / np.sqrt(np.einsum("rc,rc->r", x, x) / n.shape[1] + 1e-6)
        np.multiply(x, scale[:, None].astype(np.float32), out=y)
        np.multiply(y, w, out=y)
    return run if n.dtype == "f32" else None


def numpy_embedding(n):
    if n.dtype not in NUMPY_DTYPES:
        return None
    w, i, y = normal((50304, n.shape[1])), indices(n), np.empty(n.shape, np.float32)
    return lambda: np.take(w, i, axis=0, out=y, mode="clip")


def numpy_softmax(n):
    if n.dtype != "f32" or n.words[0] != "softmax":
        return None
    x, y, axis = normal(n.shape), np.empty(n.shape, np.float32), int(n.words[1].removeprefix("axis"))
    def run():
        np.subtract(x, x.max(axis, keepdims=True), out=y)
        np.exp(y, out=y)
        np.divide(y, y.sum(axis, keepdims=True), out=y)
    return run


def numpy_transpose(n):
    x, y = normal(n.shape), np.empty(n.shape, np.float32)
    return (lambda: np.copyto(y, x.T)) if n.dtype == "f32" and n.has("transposed") else None


def numpy_global_norm(n):
    g = [normal(n.shape[1:]).ravel() for _ in range(n.shape[0])] if n.dtype == "f32" else None
    return (lambda: math.sqrt(sum(float(np.dot(x, x)) for x in g))) if g else None


def numpy_scan(n):
    f = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "logcumsumexp": np.logaddexp}[n.words[0]]
    if n.dtype not in NUMPY_DTYPES or len(n.words) != 2:
        return None
    x, y, axis = normal(n.shape).astype(NUMPY_DTYPES[n.dtype]), np.empty(n.shape, NUMPY_DTYPES[n.dtype]), int(n.words[1].removeprefix("axis"))
    if n.words[0] == "cumprod":
        x = 1 + x / 100
    return lambda: f.accumulate(x, axis, out=y)


NUMPY = {
    "reduce": numpy_reduction, "arg_reduce": numpy_reduction,
    "gemm": numpy_gemm, "unary": lambda n: numpy_elementwise(n, {"exp": np.exp, "log": np.log, "sqrt": np.sqrt, "tanh": np.tanh, "neg": np.negative, "abs": np.abs, "conj": np.conj,
                                                        "square": np.square, "sin": np.sin, "sinh": np.sinh, "asin": np.arcsin, "reciprocal": np.reciprocal}),
    "binary": lambda n: numpy_elementwise(n, {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "pow": np.power}),
    "rms_norm": numpy_rms_norm, "softmax": numpy_softmax, "embedding": numpy_embedding, "copy": numpy_transpose, "scan": numpy_scan, "global_norm": numpy_global_norm,
}
NUMPY_DTYPES = {"f32": np.float32, "f64": np.float64, "c64": np.complex64, "c128": np.complex128}
JAX_DTYPES = {} if jax is None else {"f32": jnp.float32, "bf16": jnp.bfloat16, "f16": jnp.float16, "c64": jnp.complex64,
                                   "f8_e4m3fn": jnp.float8_e4m3fn, "f8_e5m2": jnp.float8_e5m2}


def served(dtype):
    return all(part in JAX_DTYPES for part in dtype.split(">"))


def main():
    times, same = {}, {}
    for text in sys.stdin.read().split("\n"):
        if text.count("/") < 2 or not re.fullmatch(r"\d+(x\d+)*", text.split("/")[2]):
            continue
        n = Name(text)
        key = n.key
        if key not in same:
            same[key] = {}
            for library, table, usable in (("jax_ms", JAX, jax is not None and served(n.dtype)), ("numpy_ms", NUMPY, True)):
                try:
                    if usable and n.op in table and (run := table[n.op](n)):
                        same[key][library] = best(run)
                except Exception as e:  # a combination that the library refuses
                    print(f"bench: {library[:-3]} has no {key}: {str(e).splitlines()[0]}", file=sys.stderr)
        if same[key]:
            times[text] = same[key]
    versions = {"numpy": np.__version__, **({"jax": jax.__version__} if jax else {})}
    json.dump({"times": times, "versions": versions}, sys.stdout)


if __name__ == "__main__":
    main()
