import torch

from gpu_cases import HALVES_AND_F32, case, normal


def rms_case(rows, n):
    def make(dtype):
        x, w = normal(rows, n, dtype=dtype), normal(n, dtype=dtype)
        y = torch.empty_like(x)
        h = x.double()
        want = h * torch.rsqrt((h * h).mean(-1, keepdim=True) + 1e-6) * w.double()
        return dict(op="rms_norm", fields=dict(dtype=dtype, shape=(rows, n)), args=dict(x=x, weight=w, y=y), out=dict(y=want), bytes=2 * x.nbytes,
                    torch=lambda: torch.nn.functional.rms_norm(x, (n,), w, 1e-6))
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
                    torch=lambda: torch.autograd.grad(yt, (xt, wt), dy, retain_graph=True))
    return make


for _rows, _n in ((16384, 4096), (262144, 64), (65536, 1024), (64, 262144), (4099, 4097)):
    case("norm", f"rms_norm {_rows}x{_n}", HALVES_AND_F32)(rms_case(_rows, _n))
    case("norm", f"rms_norm_backward {_rows}x{_n}", HALVES_AND_F32)(rms_backward_case(_rows, _n))


def layer_case(rows, n):
    def make(dtype):
        x, w, b = normal(rows, n, dtype=dtype), normal(n, dtype=dtype), normal(n, dtype=dtype)
        y = torch.empty_like(x)
        h = x.double()
        d = h - h.mean(-1, keepdim=True)
        want = d * torch.rsqrt((d * d).mean(-1, keepdim=True) + 1e-5) * w.double() + b.double()
        return dict(op="layer_norm", fields=dict(dtype=dtype, shape=(rows, n)), args=dict(x=x, weight=w, bias=b, y=y), out=dict(y=want), bytes=2 * x.nbytes,
                    torch=lambda: torch.nn.functional.layer_norm(x, (n,), w, b, 1e-5), repeats=20)
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
                             dbias=dy.double().sum(0)), bytes=3 * x.nbytes, repeats=20,
                    torch=lambda: torch.ops.aten.native_layer_norm_backward(dy, x, (n,), m, r, w, b, [True, True, True]))
    return make


for _rows, _n in ((16384, 8192), (65536, 1024), (262144, 64), (4099, 4097), (64, 4096)):
    case("norm", f"layer_norm {_rows}x{_n}", HALVES_AND_F32)(layer_case(_rows, _n))
    case("norm", f"layer_norm_backward {_rows}x{_n}", HALVES_AND_F32)(layer_backward_case(_rows, _n))
