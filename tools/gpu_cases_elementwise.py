import torch

from gpu_cases import DEVICE, HALVES_AND_F32, case, normal

F = torch.nn.functional
LARGE = (8192, 4096)
UNARY = {
    "neg": (torch.neg, torch.neg), "exp": (torch.exp, torch.exp), "relu": (F.relu, F.relu), "tanh": (torch.tanh, torch.tanh), "sigmoid": (torch.sigmoid, torch.sigmoid),
    "gelu": (F.gelu, F.gelu), "gelu_tanh": (lambda x: F.gelu(x, approximate="tanh"),) * 2, "silu": (F.silu, F.silu),
    "mish": (F.mish, F.mish), "softplus": (F.softplus, F.softplus), "elu": (F.elu, F.elu), "erf": (torch.erf, torch.erf), "expm1": (torch.expm1, torch.expm1)}
BINARY = {"add": torch.add, "mul": torch.mul, "maximum": torch.maximum, "lt": torch.lt}


def unary(kind, shape):
    f, theirs = UNARY[kind]

    def make(dtype):
        x = normal(*shape, dtype=dtype)
        y = torch.empty_like(x)
        return dict(op="unary", fields=dict(kind=kind, dtype=dtype, shape=shape), args=dict(x=x, y=y), out=dict(y=f(x.double())), bytes=2 * x.nbytes, torch=lambda: theirs(x))
    return make


def shifted(kind, n):
    """Of all elements but the first."""
    f, theirs = UNARY[kind]

    def make(dtype):
        x, y = normal(n, dtype=dtype)[1:], torch.empty(n, dtype=dtype, device=DEVICE)[1:]
        return dict(op="unary", fields=dict(kind=kind, dtype=dtype, shape=(n - 1,)), args=dict(x=x, y=y), out=dict(y=f(x.double())), bytes=2 * x.nbytes, torch=lambda: theirs(x))
    return make


def unary_backward(kind, theirs, shape):
    f, _ = UNARY[kind]

    def make(dtype):
        x, dy = normal(*shape, dtype=dtype), normal(*shape, dtype=dtype)
        dx = torch.empty_like(x)
        h = x.double().requires_grad_()
        want, = torch.autograd.grad(f(h), h, dy.double())
        return dict(op="unary_backward", fields=dict(kind=kind, dtype=dtype, shape=shape), args=dict(dy=dy, x=x, dx=dx), out=dict(dx=want), bytes=3 * x.nbytes, torch=lambda: theirs(dy, x))
    return make


def binary(kind, a_shape, b_shape):
    def make(dtype):
        a, b = normal(*a_shape, dtype=dtype), normal(*b_shape, dtype=dtype)
        f = BINARY[kind]
        y = f(a, b)
        return dict(op="binary", fields=dict(kind=kind, dtype=dtype, a=a_shape, b=b_shape), args=dict(a=a, b=b, y=y), out=dict(y=f(a.double(), b.double()).double()),
                    bytes=a.nbytes + b.nbytes + y.nbytes, torch=lambda: f(a, b))
    return make


def mul_backward(a_shape, b_shape, wanted):
    """Gradients of a b; b's is a sum where it was broadcast."""
    def make(dtype):
        a, b, dy = normal(*a_shape, dtype=dtype), normal(*b_shape, dtype=dtype), normal(*a_shape, dtype=dtype)
        da, db = torch.empty_like(a), torch.empty_like(b)
        sums = [i for i, n in enumerate((1,) * (len(a_shape) - len(b_shape)) + b_shape) if n == 1]
        args, out = dict(dy=dy, a=a, b=b), {}
        if "da" in wanted:
            args["da"], out["da"] = da, dy.double() * b.double()
        if "db" in wanted:
            args["db"], out["db"] = db, (dy.double() * a.double()).sum(sums, keepdim=True).reshape(b_shape)
        return dict(op="binary_backward", fields=dict(kind="mul", dtype=dtype, a=a_shape, b=b_shape), args=args, out=out,
                    bytes=dy.nbytes + ("db" in wanted) * a.nbytes + ("da" in wanted) * (da.nbytes + b.nbytes), tolerance=1e-2 if dtype != torch.float32 else 1e-5,
                    torch=(lambda: (dy * a).sum(sums)) if wanted == ("db",) else None)
    return make


def bias_gradient(rows, n):
    def make(dtype):
        dy, db = normal(rows, n, dtype=dtype), torch.empty(n, dtype=dtype, device=DEVICE)
        return dict(op="binary_backward", fields=dict(kind="add", dtype=dtype, a=(rows, n), b=(n,)), args=dict(dy=dy, db=db), out=dict(db=dy.double().sum(0)), bytes=dy.nbytes,
                    torch=lambda: dy.sum(0))
    return make


for _kind in ("neg", "exp", "gelu", "silu"):
    case("elementwise", _kind, HALVES_AND_F32)(unary(_kind, LARGE))
for _kind in ("relu", "tanh", "sigmoid", "gelu_tanh", "mish", "softplus", "elu", "erf", "expm1"):
    case("elementwise", _kind, (torch.bfloat16,))(unary(_kind, LARGE))
for _kind in ("gelu", "silu"):
    case("elementwise", f"{_kind} 64M", (torch.bfloat16, torch.float16))(unary(_kind, (8192, 8192)))
case("elementwise", "gelu_backward", HALVES_AND_F32)(unary_backward("gelu", torch.ops.aten.gelu_backward, LARGE))
case("elementwise", "silu_backward", HALVES_AND_F32)(unary_backward("silu", torch.ops.aten.silu_backward, LARGE))
case("elementwise", "gelu_tanh_backward", (torch.bfloat16,))(unary_backward("gelu_tanh", lambda dy, x: torch.ops.aten.gelu_backward(dy, x, approximate="tanh"), LARGE))
case("elementwise", "mish_backward", (torch.bfloat16,))(unary_backward("mish", torch.ops.aten.mish_backward, LARGE))
case("elementwise", "gelu of a view, an element on", (torch.bfloat16, torch.float32))(shifted("gelu", LARGE[0] * LARGE[1] + 1))
case("elementwise", "gelu 8191 x 8193", (torch.bfloat16,))(unary("gelu", (8191, 8193)))
case("elementwise", "exp 1 MiB", (torch.bfloat16, torch.float32))(lambda dtype: unary("exp", ((1 << 20) // dtype.itemsize,))(dtype))
for _kind in ("add", "mul"):
    case("elementwise", _kind, HALVES_AND_F32)(binary(_kind, LARGE, LARGE))
for _kind in ("maximum", "lt"):
    case("elementwise", _kind, (torch.float32,))(binary(_kind, LARGE, LARGE))
case("elementwise", "add a row", (torch.bfloat16, torch.float32))(binary("add", LARGE, (LARGE[1],)))
case("elementwise", "add a column", (torch.bfloat16, torch.float32))(binary("add", LARGE, (LARGE[0], 1)))
case("elementwise", "add odd rows", (torch.bfloat16, torch.float32))(binary("add", (8191, 4097), (4097,)))
case("elementwise", "gradient of a row of add", HALVES_AND_F32)(bias_gradient(*LARGE))
case("elementwise", "gradient of a row of mul", (torch.bfloat16, torch.float32))(mul_backward(LARGE, (LARGE[1],), ("db",)))
case("elementwise", "gradient of a column of mul", (torch.bfloat16, torch.float32))(mul_backward(LARGE, (LARGE[0], 1), ("db",)))
