"""Problems of 1 MiB a tensor, one at least of each op: there launches and waits count, not the bandwidth."""
import torch

from gpu_cases import DEVICE, case, normal

F = torch.nn.functional
TYPES = (torch.bfloat16, torch.float32)
LOOSE = {torch.bfloat16: 2.0 ** -6, torch.float32: 1e-4}  # sums; their own families' cases hold them to less


def rows(dtype):
    return (512, 1024) if dtype == torch.bfloat16 else (512, 512)


def wide(t):
    return t.double() if t.is_floating_point() else t


def put(name, make, dtypes=TYPES, **more):
    case("small", name, dtypes)(lambda dtype: dict(repeats=10, inner=50, bytes=0, **more) | make(dtype))


def forward(name, op, f, fields=lambda n: dict(shape=n), inputs=None, dtypes=TYPES, **more):
    """y = f(inputs...), which is the reference in f64 too."""
    def make(dtype):
        n = rows(dtype)
        given = inputs(dtype, n) if inputs else dict(x=normal(*n, dtype=dtype))
        t = list(given.values())
        y = torch.empty_like(f(*t), memory_format=torch.contiguous_format)
        return dict(op=op, fields=dict(dtype=dtype, **fields(n)), args=given | dict(y=y), out=dict(y=wide(f(*[wide(v) for v in t]))), torch=lambda: f(*t), tolerance=LOOSE[dtype])
    put(name, make, dtypes, **more)


def backward(name, op, f, read=(), fields=lambda n: dict(shape=n), inputs=None, grads=None, dtypes=TYPES, **more):
    """The gradients of f by autograd; `read`: which of the inputs, and "y", the plan takes; grads: {input: argument}."""
    def make(dtype):
        n = rows(dtype)
        given = inputs(dtype, n) if inputs else dict(x=normal(*n, dtype=dtype))
        to = grads or dict(x="dx")
        exact = {k: wide(v).requires_grad_() if k in to else wide(v) for k, v in given.items()}
        ye = f(*exact.values())
        dy = torch.randn(ye.shape, device=DEVICE).to(dtype)
        want = torch.autograd.grad(ye, [exact[k] for k in to], dy.double())
        leaves = {k: v.clone().requires_grad_() if k in to else v for k, v in given.items()}
        yt = f(*leaves.values())
        args = dict(dy=dy) | {k: v for k, v in (given | dict(y=ye.detach().to(dtype))).items() if k in read}
        outs = {a: torch.empty_like(given[k]) for k, a in to.items()}
        return dict(op=op, fields=dict(dtype=dtype, **fields(n)), args=args | outs, out=dict(zip(to.values(), want)), tolerance=LOOSE[dtype],
                    torch=lambda: torch.autograd.grad(yt, [leaves[k] for k in to], dy, retain_graph=True))
    put(name, make, dtypes, **more)


def two(dtype, n):
    return dict(a=normal(*n, dtype=dtype), b=normal(*n, dtype=dtype))


# --- elementwise, gated, copies
for _kind, _f in dict(neg=torch.neg, exp=torch.exp, gelu=F.gelu, silu=F.silu, sin=torch.sin, erf=torch.erf).items():
    forward(f"unary {_kind}", "unary", _f, lambda n, k=_kind: dict(kind=k, shape=n))
backward("unary_backward gelu", "unary_backward", F.gelu, ("x",), lambda n: dict(kind="gelu", shape=n))
for _kind, _f in dict(add=torch.add, mul=torch.mul, div=torch.div).items():
    forward(f"binary {_kind}", "binary", _f, lambda n, k=_kind: dict(kind=k, a=n, b=n), two)
forward("binary add, a row to each", "binary", torch.add, lambda n: dict(kind="add", a=n, b=n[1:]), lambda d, n: dict(a=normal(*n, dtype=d), b=normal(n[1], dtype=d)))
backward("binary_backward mul", "binary_backward", torch.mul, ("a", "b"), lambda n: dict(kind="mul", a=n, b=n), two, dict(a="da", b="db"))
backward("binary_backward add, a row to each", "binary_backward", torch.add, (), lambda n: dict(kind="add", a=n, b=n[1:]),
         lambda d, n: dict(a=normal(*n, dtype=d), b=normal(n[1], dtype=d)), dict(a="da", b="db"))
forward("ternary where", "ternary", torch.where, lambda n: dict(kind="where", a=n, b=n, c=n),
        lambda d, n: dict(a=torch.rand(n, device=DEVICE) < 0.5, b=normal(*n, dtype=d), c=normal(*n, dtype=d)))
forward("gated swiglu", "gated", lambda g, u: F.silu(g) * u, lambda n: dict(kind="swiglu", shape=n), lambda d, n: dict(gate=normal(*n, dtype=d), up=normal(*n, dtype=d)))
backward("gated_backward swiglu", "gated_backward", lambda g, u: F.silu(g) * u, ("gate", "up"), lambda n: dict(kind="swiglu", shape=n),
         lambda d, n: dict(gate=normal(*n, dtype=d), up=normal(*n, dtype=d)), dict(gate="dgate", up="dup"))
forward("copy", "copy", torch.clone)
forward("copy of the transposed", "copy", lambda x: x.clone(memory_format=torch.contiguous_format), inputs=lambda d, n: dict(x=normal(*n[::-1], dtype=d).t()))


def cast(dtype):
    x, to = normal(*rows(dtype), dtype=dtype), torch.float32 if dtype == torch.bfloat16 else torch.bfloat16
    return dict(op="cast", fields=dict(dtype=dtype, to=to, shape=tuple(x.shape)), args=dict(x=x, y=torch.empty_like(x, dtype=to)), out=dict(y=x.to(to).double()), torch=lambda: x.to(to))


def fill(dtype):
    y = torch.empty(rows(dtype), dtype=dtype, device=DEVICE)
    return dict(op="fill", fields=dict(dtype=dtype, shape=tuple(y.shape)), args=dict(y=y, value=1.5), out=dict(y=torch.full_like(y, 1.5).double()), torch=lambda: torch.full_like(y, 1.5))


def arange(dtype):
    n = rows(dtype)[0] * rows(dtype)[1]
    y = torch.empty(n, dtype=dtype, device=DEVICE)
    return dict(op="arange", fields=dict(dtype=dtype, shape=(n,)), args=dict(y=y), out=dict(y=torch.arange(n, device=DEVICE).double()), torch=lambda: torch.arange(n, dtype=dtype, device=DEVICE))


put("cast", cast), put("fill", fill), put("arange", arange)
# --- shape
for _name, _op, _fields, _f in (
        ("permute 1 0", "permute", dict(axes=(1, 0)), lambda x: x.t().contiguous()), ("flip 1", "flip", dict(axes=(1,)), lambda x: x.flip(1)),
        ("roll 1", "roll", dict(shifts=(100,), axes=(1,)), lambda x: x.roll(100, 1)), ("pad 1 1", "pad", dict(lo=(0, 1), hi=(0, 1)), lambda x: F.pad(x, (1, 1))),
        ("repeat 1 2", "repeat", dict(repeats=(1, 2)), lambda x: x.repeat(1, 2)), ("repeat_interleave 2", "repeat_interleave", dict(repeats=2, axis=0), lambda x: x.repeat_interleave(2, 0)),
        ("slice", "slice", dict(start=(0, 8), size=(512, 496)), lambda x: x[:, 8:504].clone()), ("triangle", "triangle", dict(kind="lower"), lambda x: x.tril())):
    forward(_name, _op, _f, lambda n, k=_fields: dict(shape=n, **k))


def concat(dtype):
    x = [normal(512, rows(dtype)[1] // 4, dtype=dtype) for _ in range(4)]
    y = torch.empty(rows(dtype), dtype=dtype, device=DEVICE)
    return dict(op="concat", fields=dict(dtype=dtype, shape=tuple(y.shape), axis=1), args=dict(x=x, y=y), out=dict(y=torch.cat(x, 1)), torch=lambda: torch.cat(x, 1))


def split(dtype):
    x = normal(*rows(dtype), dtype=dtype)
    parts = [torch.empty(512, x.shape[1] // 4, dtype=dtype, device=DEVICE) for _ in range(4)]
    return dict(op="split", fields=dict(dtype=dtype, shape=tuple(x.shape), axis=1), args=dict(x=x, y=parts), written={str(i): p for i, p in enumerate(parts)},
                out={str(i): p for i, p in enumerate(x.chunk(4, 1))}, torch=lambda: torch.split_with_sizes_copy(x, [x.shape[1] // 4] * 4, 1))


put("concat of 4", concat), put("split in 4", split)


# --- reductions, scans
REDUCED = dict(sum=torch.sum, mean=torch.mean, max=torch.amax, var=torch.var, norm2=lambda x, a: torch.linalg.vector_norm(x, dim=a), logsumexp=torch.logsumexp)
for _axes in ((1,), (0,), (0, 1)):
    for _kind, _f in REDUCED.items():
        if _axes != (0, 1) or _kind in ("sum", "max", "norm2"):
            forward(f"reduce {_kind} {_axes}", "reduce", lambda x, f=_f, a=_axes: f(x, a), lambda n, k=_kind, a=_axes: dict(kind=k, shape=n, axes=a))
for _kind, _read in (("sum", ()), ("max", ("x", "y")), ("norm2", ("x", "y")), ("logsumexp", ("x", "y"))):
    backward(f"reduce_backward {_kind}", "reduce_backward", lambda x, f=REDUCED[_kind]: f(x, 1), _read, lambda n, k=_kind: dict(kind=k, shape=n, axes=(1,)))


def argmax(dtype):
    x = normal(*rows(dtype), dtype=dtype)
    y = torch.empty(512, dtype=torch.int64, device=DEVICE)
    return dict(op="arg_reduce", fields=dict(dtype=dtype, shape=tuple(x.shape), axis=1), args=dict(x=x, indices=y), out=dict(indices=x.argmax(1).double()), torch=lambda: x.argmax(1),
                restore=lambda: y.fill_(-1))


def aminmax(dtype):
    x = normal(*rows(dtype), dtype=dtype)
    low, high = (torch.empty(512, dtype=dtype, device=DEVICE) for _ in range(2))
    return dict(op="aminmax", fields=dict(dtype=dtype, shape=tuple(x.shape), axes=(1,)), args=dict(x=x, min=low, max=high), out=dict(min=x.amin(1).double(), max=x.amax(1).double()),
                torch=lambda: torch.aminmax(x, dim=1))


put("argmax", argmax), put("aminmax", aminmax)
for _axis in (1, 0):
    for _kind, _f in dict(cumsum=torch.cumsum, logcumsumexp=torch.logcumsumexp).items():
        forward(f"scan {_kind} {_axis}", "scan", lambda x, f=_f, a=_axis: f(x, a), lambda n, k=_kind, a=_axis: dict(kind=k, shape=n, axis=a))
backward("scan_backward cumsum", "scan_backward", lambda x: torch.cumsum(x, 1), (), lambda n: dict(kind="cumsum", shape=n, axis=1))
# --- softmax, norms
for _axis in (1, 0):
    forward(f"softmax {_axis}", "softmax", lambda x, a=_axis: torch.softmax(x, a), lambda n, a=_axis: dict(shape=n, axis=a))
backward("softmax_backward", "softmax_backward", lambda x: torch.softmax(x, 1), ("y",), lambda n: dict(shape=n))
backward("log_softmax_backward", "softmax_backward", lambda x: torch.log_softmax(x, 1), ("y",), lambda n: dict(kind="log_softmax", shape=n))


def row(dtype, n, *names):
    return dict(x=normal(*n, dtype=dtype)) | {k: normal(n[1], dtype=dtype) for k in names}


def rms(x, w):
    return F.rms_norm(x, w.shape, w, 1e-6)


def layer(x, w, b):
    return F.layer_norm(x, w.shape, w, b, 1e-5)


forward("rms_norm", "rms_norm", rms, inputs=lambda d, n: row(d, n, "weight"))
forward("layer_norm", "layer_norm", layer, inputs=lambda d, n: row(d, n, "weight", "bias"))
backward("rms_norm_backward", "rms_norm_backward", rms, ("x", "weight"), inputs=lambda d, n: row(d, n, "weight"), grads=dict(x="dx", weight="dweight"))
backward("layer_norm_backward", "layer_norm_backward", layer, ("x", "weight"), inputs=lambda d, n: row(d, n, "weight", "bias"), grads=dict(x="dx", weight="dweight", bias="dbias"))


def image(d, n):
    return dict(x=normal(8, 64, n[1], dtype=d), weight=normal(64, dtype=d), bias=normal(64, dtype=d))


forward("group_norm", "group_norm", lambda x, w, b: F.group_norm(x, 8, w, b), lambda n: dict(shape=(8, 64, n[1]), groups=8), image)
forward("batch_norm", "batch_norm", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), lambda n: dict(shape=(8, 64, n[1])), image)
backward("group_norm_backward", "group_norm_backward", lambda x, w, b: F.group_norm(x, 8, w, b), ("x", "weight"), lambda n: dict(shape=(8, 64, n[1]), groups=8), image,
         dict(x="dx", weight="dweight", bias="dbias"))
backward("batch_norm_backward", "batch_norm_backward", lambda x, w, b: F.batch_norm(x, None, None, w, b, True), ("x", "weight"), lambda n: dict(shape=(8, 64, n[1])), image,
         dict(x="dx", weight="dweight", bias="dbias"))


# --- indices
def ids_of(n, high):
    return torch.randint(0, high, n, device=DEVICE)


forward("embedding", "embedding", lambda i, w: F.embedding(i, w), lambda n: dict(vocabulary=4096, width=n[1], indices=(512,)),
        lambda d, n: dict(indices=ids_of((512,), 4096), weight=normal(4096, n[1], dtype=d)))
backward("embedding_backward", "embedding_backward", lambda i, w: F.embedding(i, w), ("indices",), lambda n: dict(vocabulary=4096, width=n[1], indices=(512,)),
         lambda d, n: dict(indices=ids_of((512,), 4096), weight=normal(4096, n[1], dtype=d)), dict(weight="dweight"))
forward("gather", "gather", lambda x, i: torch.gather(x, 1, i), lambda n: dict(shape=n, axis=1, indices=n, out_of_range="fill"), lambda d, n: dict(x=normal(*n, dtype=d), indices=ids_of(n, n[1])))
forward("scatter", "scatter", lambda x, i, s: torch.scatter(x, 1, i, s), lambda n: dict(shape=n, axis=1, indices=n, out_of_range="fill"),
        lambda d, n: dict(x=normal(*n, dtype=d), indices=torch.rand(n, device=DEVICE).argsort(1), src=normal(*n, dtype=d)))
forward("scatter add", "scatter", lambda x, i, s: torch.scatter_add(x, 1, i, s), lambda n: dict(shape=n, axis=1, indices=n, reduce="add", out_of_range="fill"),
        lambda d, n: dict(x=normal(*n, dtype=d), indices=ids_of(n, n[1]), src=normal(*n, dtype=d)))


def index(dtype):
    n = rows(dtype)
    x, ids, y = normal(*n, dtype=dtype), ids_of((512,), 512), torch.empty(n, dtype=dtype, device=DEVICE)
    return dict(op="index", fields=dict(dtype=dtype, shape=n, axes=(0,), indices=(512,), out_of_range="fill"), args=dict(x=x, indices=[ids], y=y), out=dict(y=x[ids]),
                torch=lambda: torch.index_select(x, 0, ids))


def index_put(dtype):
    n = rows(dtype)
    x, ids, src, y = normal(*n, dtype=dtype), torch.randperm(512, device=DEVICE), normal(*n, dtype=dtype), torch.empty(n, dtype=dtype, device=DEVICE)
    return dict(op="index_put", fields=dict(dtype=dtype, shape=n, axes=(0,), indices=(512,), out_of_range="fill"), args=dict(x=x, indices=[ids], src=src, y=y),
                out=dict(y=x.index_copy(0, ids, src)), torch=lambda: x.index_copy(0, ids, src))


def one_hot(dtype):
    ids, y = ids_of((512,), rows(dtype)[1]), torch.empty(rows(dtype), dtype=dtype, device=DEVICE)
    return dict(op="one_hot", fields=dict(dtype=dtype, shape=(512,), classes=y.shape[1], out_of_range="fill"), args=dict(indices=ids, y=y), out=dict(y=F.one_hot(ids, y.shape[1]).double()),
                torch=lambda: torch.zeros(y.shape, dtype=dtype, device=DEVICE).scatter_(1, ids[:, None], 1))


put("index", index), put("index_put", index_put), put("one_hot", one_hot)


# --- loss, attention, rope, products
def cross_entropy(dtype):
    n = rows(dtype)
    x, target = normal(*n, dtype=dtype), ids_of((512,), n[1])
    loss = torch.empty(1, device=DEVICE)
    return dict(op="cross_entropy", fields=dict(dtype=dtype, tokens=512, classes=n[1]), args=dict(logits=x, target=target, loss=loss), out=dict(loss=F.cross_entropy(x.double(), target).view(1)),
                torch=lambda: F.cross_entropy(x, target), tolerance=1e-4)


def cross_entropy_and_gradient(dtype):
    n = rows(dtype)
    x, target = normal(*n, dtype=dtype), ids_of((512,), n[1])
    loss, dx, leaf, exact = torch.empty(1, device=DEVICE), torch.empty_like(x), x.clone().requires_grad_(), x.double().requires_grad_()
    want = F.cross_entropy(exact, target)
    return dict(op="cross_entropy", fields=dict(dtype=dtype, tokens=512, classes=n[1], grad_logits=True), args=dict(logits=x, target=target, loss=loss, dlogits=dx),
                out=dict(loss=want.detach().view(1), dlogits=torch.autograd.grad(want, exact)[0]), torch=lambda: torch.autograd.grad(F.cross_entropy(leaf, target), leaf), tolerance=LOOSE[dtype])


def attention(dtype):
    q, k, v = (normal(1, 8, 512, 64, dtype=dtype) for _ in range(3))
    y = torch.empty_like(q)
    return dict(op="flash_sdpa", fields=dict(dtype=dtype, batch=1, heads=8, q_len=512, k_len=512, head_dim=64, causal=True), args=dict(q=q, k=k, v=v, y=y),
                out=dict(y=F.scaled_dot_product_attention(q.double(), k.double(), v.double(), is_causal=True)), torch=lambda: F.scaled_dot_product_attention(q, k, v, is_causal=True),
                tolerance=LOOSE[dtype])


def rope(dtype):
    x = normal(1, 8, 512, rows(dtype)[1] // 8, dtype=dtype)
    half = x.shape[-1] // 2
    angle = torch.arange(512, device=DEVICE, dtype=torch.float64)[:, None] * 10000.0 ** (-torch.arange(half, device=DEVICE, dtype=torch.float64) / half)
    c, s = torch.cat((angle.cos(), angle.cos()), -1), torch.cat((-angle.sin(), angle.sin()), -1)

    def f(x, c=c.to(dtype), s=s.to(dtype)):
        return x * c + torch.cat((x[..., half:], x[..., :half]), -1) * s
    return dict(op="rope", fields=dict(dtype=dtype, shape=tuple(x.shape)), args=dict(x=x, y=torch.empty_like(x)), out=dict(y=f(x.double(), c, s)), torch=lambda: f(x), tolerance=LOOSE[dtype])


def product(dtype):
    n = rows(dtype)[1]
    a, b, c = normal(512, n, dtype=dtype), normal(n, n, dtype=dtype), torch.empty(512, n, dtype=dtype, device=DEVICE)
    return dict(op="gemm", fields=dict(dtype=dtype, m=512, n=n, k=n), args=dict(a=a, b=b, c=c), out=dict(c=a.double() @ b.double()), torch=lambda: a @ b, tolerance=LOOSE[dtype])


put("cross_entropy", cross_entropy), put("cross_entropy with gradient", cross_entropy_and_gradient), put("flash_sdpa", attention, (torch.bfloat16,)), put("rope", rope), put("gemm", product)


# --- optimisers, quantization, random numbers
def adamw(dtype):
    n = rows(dtype)
    p, g, m, v = normal(*n, dtype=dtype), normal(*n, dtype=dtype), torch.zeros(n, device=DEVICE), torch.zeros(n, device=DEVICE)
    p0, t = p.clone(), p.clone().requires_grad_()
    t.grad = g
    theirs = torch.optim.AdamW([t], lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1, fused=True, capturable=True)
    g64 = g.double()
    return dict(op="adamw", fields=dict(dtype=dtype, grad_dtype=dtype), args=dict(params=[p], grads=[g], m=[m], v=[v], step=1, lr=1e-3, beta1=0.9, beta2=0.999, eps=1e-8, weight_decay=0.1),
                written=dict(params=p), out=dict(params=p0.double() * (1 - 1e-4) - 1e-3 * g64 / (g64.abs() + 1e-8)), restore=lambda: [p.copy_(p0), m.zero_(), v.zero_()], torch=theirs.step,
                tolerance=LOOSE[dtype])


def global_norm(dtype):
    x = normal(*rows(dtype), dtype=dtype)
    y = torch.empty(1, device=DEVICE)
    return dict(op="global_norm", fields=dict(dtype=dtype), args=dict(x=[x], norm=y), written=dict(norm=y), out=dict(norm=x.double().norm().view(1)), torch=lambda: torch.nn.utils.get_total_norm([x]))


def quantize(dtype):
    x, s = normal(*rows(dtype), dtype=dtype), torch.rand(512, device=DEVICE) * 0.02 + 0.01
    y = torch.empty(x.shape, dtype=torch.int8, device=DEVICE)

    def f():
        return (x / s[:, None]).round().clamp(-128, 127).to(torch.int8)
    return dict(op="quantize", fields=dict(dtype=dtype, shape=tuple(x.shape), by="token"), args=dict(x=x, scale=s, y=y), out=dict(y=(x.float() / s[:, None]).round().clamp(-128, 127).double()), torch=f,
                restore=lambda: y.fill_(99))


def dequantize(dtype):
    x, s = torch.randint(-128, 128, rows(dtype), dtype=torch.int8, device=DEVICE), torch.rand(512, device=DEVICE) * 0.02 + 0.01
    return dict(op="dequantize", fields=dict(dtype=dtype, shape=tuple(x.shape), by="token"), args=dict(x=x, scale=s, y=torch.empty(x.shape, dtype=dtype, device=DEVICE)),
                out=dict(y=x.double() * s.double()[:, None]), torch=lambda: (x * s[:, None]).to(dtype))


def drawn(op, moments, f, **fields):
    def make(dtype):
        y = torch.empty(rows(dtype), dtype=dtype, device=DEVICE)
        return dict(op=op, fields=dict(dtype=dtype, shape=tuple(y.shape), **fields), args=dict(y=y, seed=7, offset=0), out={}, moments=moments, torch=lambda: f(y), tolerance=2e-2)
    put(op, make)


put("adamw", adamw), put("global_norm", global_norm), put("quantize by token", quantize), put("dequantize by token", dequantize)
drawn("random_uniform", (0.5, 1 / 12), torch.rand_like)
drawn("random_normal", (0.0, 1.0), torch.randn_like)
drawn("bernoulli", (0.25, 0.1875), lambda y: torch.empty_like(y).bernoulli_(0.25), p=0.25)


def dropout(dtype):
    x = torch.ones(rows(dtype), dtype=dtype, device=DEVICE)
    return dict(op="dropout", fields=dict(dtype=dtype, shape=tuple(x.shape), p=0.5), args=dict(x=x, y=torch.empty_like(x), seed=7, offset=0), out={}, moments=(1.0, 1.0), torch=lambda: F.dropout(x, 0.5),
                tolerance=2e-2)


put("dropout", dropout)
