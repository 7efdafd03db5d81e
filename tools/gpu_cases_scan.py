import torch

from gpu_cases import case, normal

KINDS = {"cumsum": lambda x, a: x.cumsum(a), "cumprod": lambda x, a: x.cumprod(a), "cummax": lambda x, a: x.cummax(a)[0], "cummin": lambda x, a: x.cummin(a)[0],
         "logcumsumexp": lambda x, a: x.logcumsumexp(a)}
TOLERANCE = {torch.bfloat16: 2.0 ** -7, torch.float16: 2.0 ** -10, torch.float32: 1e-5}


def data(kind, shape, dtype):
    x = normal(*shape, dtype=dtype)
    return torch.where(x < 0, -1, 1).to(dtype) if kind == "cumprod" else x  # products of what is drawn would leave the range


def logcumsumexp(x, axis):
    """In f64; for numbers as normal() draws them."""
    return x.double().exp().cumsum(axis).log()


def from_the_end(x, axis):
    return x.flip(axis).cumsum(axis).flip(axis)


def forward(kind, shape, axis):
    def make(dtype):
        x = data(kind, shape, dtype)
        f = KINDS[kind]
        extremum = kind in ("cummax", "cummin")
        y, indices = torch.empty_like(x), torch.empty(shape, dtype=torch.int64, device=x.device) if extremum else None
        want = logcumsumexp(x, axis) if kind == "logcumsumexp" else f(x if extremum else x.double(), axis).double()
        args = dict(x=x, y=y, indices=indices) if extremum else dict(x=x, y=y)  # as torch, whose indices cannot be left out
        return dict(op="scan", fields=dict(kind=kind, dtype=dtype, shape=shape, axis=axis), args=args, out=dict(y=want), bytes=2 * x.nbytes + (indices.nbytes if extremum else 0),
                    tolerance=TOLERANCE[dtype], torch=lambda: f(x, axis), repeats=10)
    return make


def backward(kind, shape, axis):
    def make(dtype):
        x, dy = data(kind, shape, dtype), normal(*shape, dtype=dtype)
        dx, args, read = torch.empty_like(x), dict(dy=dy), dy.nbytes
        g = dy.double()
        if kind == "cumsum":
            want = from_the_end(g, axis)
        elif kind == "cumprod":
            args["x"], read = x, read + x.nbytes
            want = from_the_end(g * x.double().cumprod(axis), axis) / x.double()
        elif kind == "logcumsumexp":
            args["x"], args["y"], read = x, logcumsumexp(x, axis).to(dtype), read + 2 * x.nbytes
            want = x.double().exp() * from_the_end(g * torch.exp(-args["y"].double()), axis)
        else:
            args["indices"] = (x.cummax(axis) if kind == "cummax" else x.cummin(axis))[1]
            read += args["indices"].nbytes
            want = torch.zeros_like(g).scatter_add_(axis, args["indices"], g)
        xt = x.clone().requires_grad_()
        yt = KINDS[kind](xt, axis)
        return dict(op="scan_backward", fields=dict(kind=kind, dtype=dtype, shape=shape, axis=axis), args=dict(**args, dx=dx), out=dict(dx=want), bytes=read + dx.nbytes,
                    tolerance=TOLERANCE[dtype], repeats=10, torch=lambda: torch.autograd.grad(yt, xt, dy, retain_graph=True), eager=kind == "cumprod")
    return make


for _shape, _axis in (((8192, 8192), 1), ((8192, 8192), 0), ((1 << 20, 64), 1), ((256, 262144), 1), ((1, 1 << 26), 1), ((64, 512, 2048), 1), ((8191, 8193), 1), ((8191, 8193), 0),
                      ((512, 512), 1), ((512, 512), 0), ((1, 1 << 18), 1)):
    _label = f"{'x'.join(map(str, _shape))} axis {_axis}"
    for _kind in KINDS:
        case("scan", f"{_kind} {_label}", (torch.float32, torch.bfloat16, torch.float16))(forward(_kind, _shape, _axis))
        case("scan", f"{_kind}_backward {_label}", (torch.float32, torch.bfloat16, torch.float16))(backward(_kind, _shape, _axis))


def recurrence(shape, axis, gradient):
    """Decays below a half: what is more than 64 elements back counts for nothing, so a sum of 64 terms is the reference."""
    def make(dtype):
        a, x = torch.rand(*shape, device="cuda").mul_(0.5).to(dtype), normal(*shape, dtype=dtype)
        fields = dict(dtype=dtype, shape=shape, axis=axis)
        n = shape[axis]

        def solved(x, a):  # in f64; a leads from the one before
            y, reach = x.double(), a.double()
            step = 1
            while step < 64:  # y_t + reach_t y_(t - step), twice as far every time
                y.narrow(axis, step, n - step).add_(reach.narrow(axis, step, n - step) * y.narrow(axis, 0, n - step))
                reach = torch.cat([torch.zeros_like(reach.narrow(axis, 0, step)), reach.narrow(axis, step, n - step) * reach.narrow(axis, 0, n - step)], axis)
                step *= 2
            return y
        if not gradient:
            y = torch.empty_like(x)
            return dict(op="linear_recurrence", fields=fields, args=dict(a=a, x=x, y=y), out=dict(y=solved(x, a)), bytes=3 * x.nbytes, tolerance=TOLERANCE[dtype], torch=None, repeats=10)
        dy, dx, da = normal(*shape, dtype=dtype), torch.empty_like(x), torch.empty_like(x)
        behind = torch.cat([a.narrow(axis, 1, n - 1), torch.zeros_like(a.narrow(axis, 0, 1))], axis)
        want = solved(dy.flip(axis), behind.flip(axis)).flip(axis)
        before = torch.cat([torch.zeros_like(x.narrow(axis, 0, 1)), x.narrow(axis, 0, n - 1)], axis)
        return dict(op="linear_recurrence_backward", fields=fields, args=dict(dy=dy, a=a, y=x, dx=dx, da=da), out=dict(dx=want, da=want * before.double()), bytes=5 * x.nbytes,
                    tolerance=TOLERANCE[dtype], torch=None, repeats=10)
    return make


for _shape, _axis in (((8192, 8192), 1), ((8192, 8192), 0), ((1 << 20, 64), 1), ((1, 1 << 26), 1), ((64, 512, 2048), 1), ((8191, 8193), 1)):
    _label = f"{'x'.join(map(str, _shape))} axis {_axis}"
    case("scan", f"linear_recurrence {_label}", (torch.float32, torch.bfloat16))(recurrence(_shape, _axis, False))
    case("scan", f"linear_recurrence_backward {_label}", (torch.float32, torch.bfloat16))(recurrence(_shape, _axis, True))
