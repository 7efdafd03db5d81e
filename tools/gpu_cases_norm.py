import torch

from gpu_cases import HALVES_AND_F32, case, normal


def rms_case(rows, n):
    def make(dtype):
        x, w = normal(rows, n, dtype=dtype), normal(n, dtype=dtype)
        y = torch.empty_like(x)
        h = x.double()
        want = h * torch.rsqrt((h * h).mean(-1, keepdim=True) + 1e-6) * w.double()
        return dict(op="rms_norm", fields=dict(dtype=dtype, shape=(rows, n)), args=dict(x=x, weight=w, y=y), out=dict(y=want), bytes=2 * x.nbytes,
                    torch=None if rows == 1 else lambda: torch.nn.functional.rms_norm(x, (n,), w, 1e-6), repeats=10)
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
                    torch=lambda: torch.autograd.grad(yt, (xt, wt), dy, retain_graph=True), repeats=10)
    return make


def layer_case(rows, n):
    def make(dtype):
        x, w, b = normal(rows, n, dtype=dtype), normal(n, dtype=dtype), normal(n, dtype=dtype)
        y = torch.empty_like(x)
        h = x.double()
        d = h - h.mean(-1, keepdim=True)
        want = d * torch.rsqrt((d * d).mean(-1, keepdim=True) + 1e-5) * w.double() + b.double()
        return dict(op="layer_norm", fields=dict(dtype=dtype, shape=(rows, n)), args=dict(x=x, weight=w, bias=b, y=y), out=dict(y=want), bytes=2 * x.nbytes,
                    torch=None if rows == 1 else lambda: torch.nn.functional.layer_norm(x, (n,), w, b, 1e-5), repeats=10)
    return make


def layer_backward_case(rows, n):
    def make(dtype):
        x, w, b, dy = normal(rows, n, dtype=dtype), normal(n, dtype=dtype), normal(n, dtype=dtype), normal(rows, n, dtype=dtype)
        h, g = x.double(), dy.double() * w.double()
        mean = h.mean(-1, keepdim=True)
        rstd = torch.rsqrt(((h - mean) ** 2).mean(-1, keepdim=True) + 1e-5)
        xhat = (h - mean) * rstd
        dx, dw, db = torch.empty_like(x), torch.empty_like(w), torch.empty_like(b)
        kept = torch.float64 if dtype == torch.float64 else torch.float32
        m, r = mean.to(kept), rstd.to(kept)
        return dict(op="layer_norm_backward", fields=dict(dtype=dtype, shape=(rows, n)),
                    args=dict(dy=dy, x=x, weight=w, mean=m.squeeze(-1), rstd=r.squeeze(-1), dx=dx, dweight=dw, dbias=db),
                    out=dict(dx=rstd * (g - g.mean(-1, keepdim=True) - xhat * (g * xhat).mean(-1, keepdim=True)), dweight=(dy.double() * xhat).sum(0),
                             dbias=dy.double().sum(0)), bytes=3 * x.nbytes, repeats=10,
                    torch=lambda: torch.ops.aten.native_layer_norm_backward(dy, x, (n,), m, r, w, b, [True, True, True]))
    return make


for _rows, _n in ((16384, 8192), (65536, 1024), (1 << 20, 64), (256, 262144), (8191, 8193), (1, 1 << 26)):
    _dtypes = HALVES_AND_F32 if (_rows, _n) == (65536, 1024) else (torch.bfloat16, torch.float32)
    case("norm", f"layer_norm {_rows}x{_n}", _dtypes)(layer_case(_rows, _n))
    case("norm", f"rms_norm {_rows}x{_n}", _dtypes)(rms_case(_rows, _n))
    if _rows == 1:
        continue
    case("norm", f"layer_norm_backward {_rows}x{_n}", _dtypes)(layer_backward_case(_rows, _n))
    case("norm", f"rms_norm_backward {_rows}x{_n}", _dtypes)(rms_backward_case(_rows, _n))


def channel_case(op, shape, groups=0, backward=False):
    """group_norm, batch_norm, batch_norm_inference over [samples, channels, ...]."""
    def make(dtype):
        c = shape[1]
        x, dy = normal(*shape, dtype=dtype), normal(*shape, dtype=dtype)
        w, b = normal(c, dtype=dtype), normal(c, dtype=dtype)
        one = (1, c) + (1,) * (len(shape) - 2)
        h, g = x.double(), dy.double() * w.double().view(one)
        fields = dict(dtype=dtype, shape=shape)
        if op == "group_norm":
            fields["groups"] = groups
            split = lambda t: t.reshape(shape[0], groups, -1)
            mean, var = split(h).mean(-1), split(h).var(-1, unbiased=False)
            spread = lambda t: t.repeat_interleave(c // groups, 1).view(shape[0], c, *one[2:])
            average = lambda t: spread(split(t).mean(-1))
        else:
            axes = [a for a in range(len(shape)) if a != 1]
            mean, var = h.mean(axes), h.var(axes, unbiased=False)
            spread = lambda t: t.view(one)
            average = lambda t: spread(t.mean(axes))
        rstd = torch.rsqrt(var + 1e-5)
        xhat = (h - spread(mean)) * spread(rstd)
        summed = [a for a in range(len(shape)) if a != 1]
        y = torch.empty_like(x)
        m, r = mean.float(), rstd.float()
        if not backward:
            args = dict(x=x, weight=w, bias=b, y=y)
            want = xhat * w.double().view(one) + b.double().view(one)
            if op == "batch_norm_inference":
                mw, vw = mean.to(dtype), var.to(dtype)
                args.update(mean=mw, var=vw)
                want = (h - spread(mw.double())) * torch.rsqrt(spread(vw.double()) + 1e-5) * w.double().view(one) + b.double().view(one)
                theirs = lambda: torch.nn.functional.batch_norm(x, mw, vw, w, b, False, 0.1, 1e-5)
            elif op == "batch_norm":
                theirs = lambda: torch.nn.functional.batch_norm(x, None, None, w, b, True, 0.1, 1e-5)
            else:
                theirs = lambda: torch.nn.functional.group_norm(x, groups, w, b, 1e-5)
            return dict(op=op, fields=fields, args=args, out=dict(y=want), bytes=2 * x.nbytes, repeats=10, torch=theirs)
        dx, dw, db = torch.empty_like(x), torch.empty_like(w), torch.empty_like(b)
        xt, wt, bt = x.clone().requires_grad_(), w.clone().requires_grad_(), b.clone().requires_grad_()
        yt = (torch.nn.functional.group_norm(xt, groups, wt, bt, 1e-5) if op == "group_norm" else torch.nn.functional.batch_norm(xt, None, None, wt, bt, True, 0.1, 1e-5))
        return dict(op=f"{op}_backward", fields=fields, args=dict(dy=dy, x=x, weight=w, mean=m, rstd=r, dx=dx, dweight=dw, dbias=db),
                    out=dict(dx=spread(rstd) * (g - average(g) - xhat * average(g * xhat)), dweight=(dy.double() * xhat).sum(summed), dbias=dy.double().sum(summed)),
                    bytes=3 * x.nbytes, repeats=10, torch=lambda: torch.autograd.grad(yt, (xt, wt, bt), dy, retain_graph=True))
    return make


for _shape, _groups in (((128, 512, 28, 28), 32),):
    _label = "x".join(map(str, _shape))
    for _back in (False, True):
        _end = "_backward" if _back else ""
        case("norm", f"group_norm{_end} {_label}/{_groups}", (torch.bfloat16, torch.float32))(channel_case("group_norm", _shape, _groups, _back))
        case("norm", f"batch_norm{_end} {_label}", (torch.bfloat16, torch.float32))(channel_case("batch_norm", _shape, 0, _back))
    case("norm", f"batch_norm_inference {_label}", (torch.bfloat16,))(channel_case("batch_norm_inference", _shape))
