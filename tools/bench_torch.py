#!/usr/bin/env python3
"""bench_torch.py THREADS < NAMES: as bench_others.py, for PyTorch, when it is installed. Results go where they were before
(out=) wherever the function takes that; gradients come from autograd with the forward made before. Compiled code is not
measured: torch.compile needs a compiler on the machine."""
import json
import re
import sys

from bench_others import THREADS, Name, best, indices, normal, numbers

import torch
import torch.nn.functional as F

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16, "f64": torch.float64, "i32": torch.int32, "i64": torch.int64, "bool": torch.bool,
          "c64": torch.complex64, "c128": torch.complex128, "f8_e4m3fn": torch.float8_e4m3fn, "f8_e5m2": torch.float8_e5m2}


def t(shape, dtype, seed=1, scale=1.0):
    return torch.from_numpy(numbers(shape, dtype, seed) * scale).to(DTYPES[dtype])


def forward(f, *args):
    def run():
        with torch.inference_mode():
            f(*args)
    return run


def into(f, *args):
    """f with out=: into memory that is there already."""
    with torch.inference_mode():
        out = f(*args)

    def run():
        with torch.inference_mode():
            f(*args, out=out)
    return run


def backward(f, *args):
    args = [a.detach().requires_grad_() if a.is_floating_point() else a for a in args]
    y = f(*args)
    y = y[0] if isinstance(y, tuple) else y
    dy = torch.from_numpy(normal(tuple(y.shape), 9)).to(y.dtype) if y.dim() else torch.ones((), dtype=y.dtype)
    wanted = [a for a in args if a.requires_grad]
    return lambda: torch.autograd.grad(y, wanted, dy, retain_graph=True)


def axis_of(n):
    """axis0 axis1 among the words: an axis; axis-1 or axis01: all of them."""
    for w in n.words:
        if m := re.fullmatch(r"axis(-?\d+)", w):
            return int(m[1]) if len(m[1]) == 1 else tuple(range(len(n.shape)))
    return -1


def rms_norm(n, run):
    w = t(n.shape[-1:], n.dtype, 2)
    if n.words == ["residual"]:
        return run(lambda x, r, w: F.rms_norm(x + r, n.shape[-1:], w, 1e-6), t(n.shape, n.dtype), t(n.shape, n.dtype, 3), w)
    return run(lambda x, w: F.rms_norm(x, n.shape[-1:], w, 1e-6), t(n.shape, n.dtype), w) if not n.words else None


def layer_norm(n, run):
    return run(lambda x, w, b: F.layer_norm(x, n.shape[-1:], w, b), t(n.shape, n.dtype), t(n.shape[-1:], n.dtype, 2), t(n.shape[-1:], n.dtype, 3))


def group_norm(n, run):
    groups, c = int(n.words[0].removeprefix("groups")), n.shape[1:2]
    return run(lambda x, w, b: F.group_norm(x, groups, w, b), t(n.shape, n.dtype), t(c, n.dtype, 2), t(c, n.dtype, 3))


def batch_norm(n, run, training=True):
    c = n.shape[1:2]
    mean, var = (None, None) if training else (t(c, n.dtype, 4), torch.ones(c, dtype=DTYPES[n.dtype]))
    return run(lambda x, w, b: F.batch_norm(x, mean, var, w, b, training), t(n.shape, n.dtype), t(c, n.dtype, 2), t(c, n.dtype, 3))


def gated(n, run):
    act = {"swiglu": F.silu, "geglu": F.gelu}.get(n.words[0])
    return run(lambda g, u: act(g) * u, t(n.shape, n.dtype), t(n.shape, n.dtype, 2)) if act else None


def rope(n, run):
    if n.has("heads_inside"):
        return None
    b, h, s, d = n.shape
    angle = torch.arange(s)[:, None] * (10000.0 ** (-torch.arange(0, d, 2) / d))[None, :]
    cos, sin = angle.cos().to(DTYPES[n.dtype]), angle.sin().to(DTYPES[n.dtype])

    def f(x):
        a, c = (x[..., 0::2], x[..., 1::2]) if n.has("interleaved") else x.chunk(2, -1)
        y, z = a * cos - c * sin, c * cos + a * sin
        return torch.stack([y, z], -1).flatten(-2) if n.has("interleaved") else torch.cat([y, z], -1)
    return run(f, t(n.shape, n.dtype))


def embedding(n, run):
    i = torch.from_numpy(indices(n))
    return run(lambda w: F.embedding(i, w), t((50304, n.shape[1]), n.dtype))


def adamw(n):
    if n.words:
        return None
    parameters = [torch.nn.Parameter(t(n.shape[1:], n.dtype, k + 1)) for k in range(n.shape[0])]
    for p in parameters:
        p.grad = t(n.shape[1:], n.dtype, 99, 0.01)
    optimizer = torch.optim.AdamW(parameters, lr=1e-3, fused=True)
    return lambda: optimizer.step()


def gemm(n):
    m, columns, k = n.shape
    if ">" in n.dtype:
        return None
    what = n.words[0]
    a = t((k, m), n.dtype).T if what in ("dW=dy^Tx", "dW=dlogits^Tx", "A^Tx") else t((m, k), n.dtype)
    b = t((columns, k), n.dtype, 2).T if what in ("y=xW^T", "logits", "xW^T") else t((k, columns), n.dtype, 2)
    return into(torch.matmul, a, b)


def attention(n, run):
    if n.words != ["causal"]:
        return None
    return run(lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *(t(n.shape, n.dtype, i) for i in (1, 2, 3)))


def fused_loss(n):
    tokens, hidden, classes = n.shape
    target = torch.arange(tokens) * 7919 % classes
    x, w = t((tokens, hidden), n.dtype), t((classes, hidden), n.dtype, 2, hidden ** -0.5)
    loss = lambda x, w: F.cross_entropy((x @ w.T).float(), target)
    if n.words not in ([], ["dx_dw"]):
        return None
    if not n.words:
        return forward(loss, x, w)
    x.requires_grad_(), w.requires_grad_()
    return lambda: torch.autograd.grad(loss(x, w), (x, w))


def cross_entropy(n):
    target = torch.arange(n.shape[0]) * 7919 % n.shape[1]
    z = t(n.shape, n.dtype)
    if not n.has("dlogits"):
        return forward(lambda z: F.cross_entropy(z, target), z)
    z.requires_grad_()
    return lambda: torch.autograd.grad(F.cross_entropy(z, target), z)


def cross_entropy_backward(n):
    target = torch.arange(n.shape[0]) * 7919 % n.shape[1]
    return backward(lambda z: F.cross_entropy(z, target), t(n.shape, n.dtype))


# Of our kinds those that have another name there, or that are no function of torch itself.
UNARY = {"gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "silu": F.silu, "relu": F.relu, "mish": F.mish, "softplus": F.softplus,
         "elu": F.elu, "hardswish": F.hardswish, "leaky_relu": F.leaky_relu, "log_sigmoid": F.logsigmoid}
OUTLESS = tuple(UNARY.values())
KINDS = {"max": "amax", "min": "amin", "norm2": "norm", "cumlogsumexp": "logcumsumexp"}


def function(name):
    return UNARY.get(name) or getattr(torch, name, None) or getattr(torch.special, name, None)


def unary(n, back=False):
    f = function(n.words[0])
    if not f or len(n.words) != 1:
        return None
    x = t(n.shape, n.dtype)
    return backward(f, x) if back else forward(f, x) if f in OUTLESS else into(f, x)


def binary(n, back=False):
    f = function(n.words[0])
    if not f:
        return None
    shapes = {"one_row": n.shape[1:], "one_column": (n.shape[0], 1)}
    other = shapes.get(n.words[1]) if len(n.words) == 2 else n.shape if len(n.words) == 1 else None
    if other is None:
        return None
    a, b = t(n.shape, n.dtype), t(other, n.dtype, 2)
    return backward(f, a, b) if back else into(f, a, b)


def reduction(n, back=False):
    kind, axis = n.words[0], axis_of(n)
    f = {"var": torch.var, "std": torch.std, "norm2": torch.linalg.vector_norm, "prod": torch.prod}.get(kind) or function(KINDS.get(kind, kind))
    if not f or (kind in ("prod", "argmax", "argmin") and isinstance(axis, tuple)):
        return None
    x = t(n.shape, n.dtype)
    call = (lambda x: f(x, dim=axis)) if kind != "mean" or x.is_floating_point() else None
    return call and (backward(call, x) if back else forward(call, x))


def scan(n, back=False):
    kind = n.words[0]
    f, axis = function(KINDS.get(kind, kind)), axis_of(n)
    if not f or len(n.words) != 2 or isinstance(axis, tuple):
        return None
    x = t(n.shape, n.dtype) if kind != "cumprod" else 1 + 0.01 * t(n.shape, n.dtype)
    return backward(lambda x: f(x, axis), x) if back else into(lambda x, out=None: f(x, axis, out=out), x)


def softmax(n, back=False):
    f = {"softmax": torch.softmax, "log_softmax": torch.log_softmax, "softmin": F.softmin}.get(n.words[0])
    return f and (backward if back else forward)(lambda x: f(x, axis_of(n)), t(n.shape, n.dtype))


def cast(n):
    source, to = n.dtype.split(">")
    if source not in DTYPES or to not in DTYPES:
        return None
    x, y = t(n.shape, source), torch.empty(n.shape, dtype=DTYPES[to])
    return lambda: y.copy_(x)


def transpose(n):
    x, y = t(n.shape, n.dtype), torch.empty(n.shape[::-1], dtype=DTYPES[n.dtype])
    return (lambda: y.copy_(x.T)) if n.has("transposed") else None


def pads(n, back=False):
    around = (3, 5) if len(n.shape) == 2 else (0, 0, 1, 1)
    pad = [k for a in reversed(around) for k in (a, a)][: 2 * (len(n.shape) - (2 if len(n.shape) == 4 else 0))]
    lead = (lambda x: x[None]) if n.has("reflect") and len(n.shape) == 2 else (lambda x: x)
    call = lambda x: F.pad(lead(x), pad, mode=n.words[0])
    return (backward if back else forward)(call, t(n.shape, n.dtype))


def moves(n, back=False):
    x = t(n.shape, n.dtype)
    if n.op == "permute":
        return forward(lambda x: x.permute([int(a) for a in n.words[0]]).contiguous(), x)
    if n.op == "concat":
        return into(lambda a, out=None: torch.cat([a, a], axis_of(n), out=out), x)
    if n.op == "triangle":
        return into(torch.tril, x)
    call = {"flip": lambda x: x.flip(axis_of(n)), "roll": lambda x: x.roll(1001, axis_of(n)), "repeat": lambda x: x.repeat(4, 4)}[n.op.removesuffix("_backward")]
    return (backward if back else forward)(call, x)


def indexed(n, back=False):
    axis = axis_of(n) if n.op != "index" and not n.op.startswith("index_") else 0
    rows, picked = n.shape[axis], (1 << 24,) if len(n.shape) == 1 else n.shape
    slices = n.op.startswith("index")
    i = torch.randint(0, rows, (rows,) if slices else picked, generator=torch.Generator().manual_seed(3))
    x = t(n.shape, n.dtype)
    if n.op == "scatter":
        src = t(picked, n.dtype, 2)
        return forward(lambda x, i, s: x.scatter_add(axis, i, s), x, i, src)
    call = (lambda x: x.index_select(0, i)) if slices else (lambda x: x.gather(axis, i))
    return backward(call, x) if back else into((lambda x, out=None: torch.index_select(x, 0, i, out=out)) if slices else (lambda x, out=None: torch.gather(x, axis, i, out=out)), x)


def quantized(n, back=False):
    x = t(n.shape, n.dtype)
    scale, zero = torch.full((n.shape[0],), 0.03), torch.zeros(n.shape[0], dtype=torch.int32)
    per = n.words[0] if n.words else ""
    if n.op.startswith("fake_quantize"):
        call = {"tensor": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.03, 0, -128, 127),
                "channel": lambda x: torch.fake_quantize_per_channel_affine(x, scale, zero, 0, -128, 127)}.get(per)
        return call and (backward if back else forward)(call, x)
    if n.dtype != "f32" or per not in ("tensor", "channel"):
        return None
    quantize = (lambda x: torch.quantize_per_tensor(x, 0.03, 0, torch.qint8)) if per == "tensor" else (lambda x: torch.quantize_per_channel(x, scale.double(), zero.long(), 0, torch.qint8))
    return forward(quantize, x) if n.op == "quantize" else forward(lambda q: q.dequantize(), quantize(x))


def made(n):
    """Numbers of a rule, and drawn ones, into memory that is there already where torch can."""
    if n.op == "triangle_indices":
        return lambda: torch.tril_indices(*n.shape)
    if n.op == "dropout":
        return forward(lambda x: F.dropout(x, 0.1), t(n.shape, n.dtype))
    if n.dtype not in DTYPES or (n.op in ("arange", "linspace", "randperm") and len(n.shape) > 1):
        return None
    y = torch.empty(n.shape, dtype=DTYPES[n.dtype])
    return {"arange": lambda: torch.arange(n.shape[0], out=y), "linspace": lambda: torch.linspace(0, 1, n.shape[0], out=y),
            "randperm": lambda: torch.randperm(n.shape[0], out=y), "randint": lambda: y.random_(0, 1000), "random_uniform": y.uniform_, "random_normal": y.normal_,
            "random_exponential": y.exponential_, "bernoulli": lambda: y.bernoulli_(0.5)}[n.op]


TORCH = {
    **dict.fromkeys(("arange", "linspace", "triangle_indices", "random_uniform", "random_normal", "random_exponential", "bernoulli", "dropout", "randint", "randperm"), made),
    "pad": pads, "pad_backward": lambda n: pads(n, True), "permute": moves, "concat": moves, "triangle": moves, "flip": moves, "roll": moves, "repeat": moves,
    "repeat_backward": lambda n: moves(n, True), "gather": indexed, "gather_backward": lambda n: indexed(n, True), "index": indexed,
    "index_backward": lambda n: indexed(n, True), "scatter": indexed, "quantize": quantized, "dequantize": quantized, "fake_quantize": quantized,
    "fake_quantize_backward": lambda n: quantized(n, True),
    "rms_norm": lambda n: rms_norm(n, forward), "rms_norm_backward": lambda n: rms_norm(n, backward),
    "layer_norm": lambda n: layer_norm(n, forward), "layer_norm_backward": lambda n: layer_norm(n, backward),
    "group_norm": lambda n: group_norm(n, forward), "group_norm_backward": lambda n: group_norm(n, backward),
    "batch_norm": lambda n: batch_norm(n, forward), "batch_norm_backward": lambda n: batch_norm(n, backward),
    "batch_norm_inference": lambda n: batch_norm(n, forward, False),
    "gated": lambda n: gated(n, forward), "gated_backward": lambda n: gated(n, backward),
    "rope": lambda n: rope(n, forward), "rope_backward": lambda n: rope(n, backward),
    "embedding": lambda n: embedding(n, forward), "embedding_backward": lambda n: embedding(n, backward), "adamw": adamw,
    "global_norm": lambda n: forward(torch.nn.utils.get_total_norm, [t(n.shape[1:], n.dtype) for _ in range(n.shape[0])]),
    "gemm": gemm, "flash_sdpa": lambda n: attention(n, forward), "flash_sdpa_backward": lambda n: attention(n, backward),
    "fused_linear_cross_entropy": fused_loss, "cross_entropy": cross_entropy, "cross_entropy_backward": cross_entropy_backward,
    "unary": unary, "unary_backward": lambda n: unary(n, True), "binary": binary, "binary_backward": lambda n: binary(n, True), "cast": cast, "copy": transpose,
    "reduce": reduction, "reduce_backward": lambda n: reduction(n, True), "arg_reduce": reduction,
    "scan": scan, "scan_backward": lambda n: scan(n, True), "softmax": softmax, "softmax_backward": lambda n: softmax(n, True),
}


def main():
    torch.set_num_threads(THREADS)
    times, same = {}, {}
    for text in sys.stdin.read().split("\n"):
        if text.count("/") < 2 or not re.fullmatch(r"\d+(x\d+)*", text.split("/")[2]):
            continue
        n = Name(text)
        key = n.key
        if key not in same:
            same[key] = None
            try:
                if n.op in TORCH and all(d in DTYPES for d in n.dtype.split(">")) and (run := TORCH[n.op](n)):
                    same[key] = best(run)
            except Exception as e:  # a combination that torch refuses
                print(f"bench: torch has no {key}: {str(e).splitlines()[0]}", file=sys.stderr)
        if same[key]:
            times[text] = {"torch_ms": same[key]}
    json.dump({"times": times, "versions": {"torch": torch.__version__}}, sys.stdout)


if __name__ == "__main__":
    main()
