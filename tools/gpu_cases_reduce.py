import torch

from gpu_cases import case, normal

KINDS = {
    "sum": lambda x, a: x.sum(a), "mean": lambda x, a: x.mean(a), "max": lambda x, a: x.amax(a), "min": lambda x, a: x.amin(a), "norm1": lambda x, a: torch.linalg.vector_norm(x, 1, a),
    "norm2": lambda x, a: torch.linalg.vector_norm(x, dim=a), "logsumexp": lambda x, a: torch.logsumexp(x, a), "var": lambda x, a: x.var(a), "prod": lambda x, a: x.prod(a),
}


def data(kind, shape, dtype):
    x = normal(*shape, dtype=dtype)
    return torch.where(x < 0, -1, 1).to(dtype) if kind == "prod" else x  # products of what is drawn would leave the range


def forward(kind, shape, axis):
    def make(dtype):
        x = data(kind, shape, dtype)
        f = KINDS[kind]
        want = f(x.double(), axis)
        y = torch.empty(want.shape, dtype=dtype, device=x.device)
        return dict(op="reduce", fields=dict(kind=kind, dtype=dtype, shape=shape, axes=(axis,)), args=dict(x=x, y=y), out=dict(y=want), bytes=x.nbytes + y.nbytes,
                    torch=lambda: f(x, axis), repeats=20)
    return make


def backward(kind, shape, axis):
    def make(dtype):
        x = data(kind, shape, dtype)
        xd = x.double().requires_grad_()
        yd = KINDS[kind](xd, axis)
        dy = torch.randn(yd.shape, device=x.device).to(dtype)
        (want,) = torch.autograd.grad(yd, xd, dy.double()) if kind != "prod" else ((dy.double() * yd.detach()).unsqueeze(axis) / x.double(),)  # torch waits
        dx, args = torch.empty_like(x), dict(dy=dy)
        if kind not in ("sum", "mean"):
            args["x"] = x
        if kind in ("max", "min", "norm2", "logsumexp"):
            args["y"] = yd.detach().to(dtype)
        if kind == "var":
            args["mean"] = x.double().mean(axis).float()
        reads = "x" in args
        xt = x.clone().requires_grad_()
        yt = KINDS[kind](xt, axis)
        return dict(op="reduce_backward", fields=dict(kind=kind, dtype=dtype, shape=shape, axes=(axis,)), args=dict(**args, dx=dx), out=dict(dx=want),
                    bytes=(2 if reads else 1) * x.nbytes, tolerance=1e-5 if dtype == torch.float32 else 2.0 ** -5 if kind == "logsumexp" else 2.0 ** -6,  # y keeps 8 bits
                    repeats=20, eager=kind == "prod",
                    torch=lambda: torch.autograd.grad(yt, xt, dy, retain_graph=True))
    return make


@case("reduce", "trace 256x2048x2048", (torch.float32, torch.bfloat16))
def trace(dtype):
    x = normal(256, 2048, 2048, dtype=dtype)
    y = torch.empty(256, dtype=dtype, device=x.device)
    return dict(op="trace", fields=dict(dtype=dtype, shape=tuple(x.shape), axis1=1, axis2=2), args=dict(x=x, y=y), out=dict(y=x.double().diagonal(dim1=1, dim2=2).sum(1)),
                bytes=256 * 2048 * 32, torch=lambda: x.diagonal(dim1=1, dim2=2).sum(1))  # memory is read by 32 bytes


@case("reduce", "trace_backward 256x1024x1024", (torch.float32, torch.bfloat16))
def trace_backward(dtype):
    dy = normal(256, dtype=dtype)
    dx = torch.empty(256, 1024, 1024, dtype=dtype, device=dy.device)
    return dict(op="trace_backward", fields=dict(dtype=dtype, shape=tuple(dx.shape), axis1=1, axis2=2), args=dict(dy=dy, dx=dx),
                out=dict(dx=torch.diag_embed(dy.double()[:, None].expand(256, 1024))), bytes=dx.nbytes, torch=lambda: torch.diag_embed(dy[:, None].expand(256, 1024)), tolerance=0.0)


for _shape, _axis in (((8192, 8192), 1), ((8192, 8192), 0), ((1 << 20, 64), 1), ((256, 262144), 1), ((1, 1 << 26), 1), ((64, 512, 2048), 1), ((8191, 8193), 1), ((8191, 8193), 0),
                      ((512, 512), 1), ((512, 512), 0), ((1, 1 << 18), 1)):
    _label = f"{'x'.join(map(str, _shape))} axis {_axis}"
    for _kind in KINDS:
        case("reduce", f"{_kind} {_label}", (torch.float32, torch.bfloat16, torch.float16))(forward(_kind, _shape, _axis))
        case("reduce", f"{_kind}_backward {_label}", (torch.float32, torch.bfloat16, torch.float16))(backward(_kind, _shape, _axis))
