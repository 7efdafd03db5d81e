import torch

from gpu_cases import HALVES_AND_F32, case, normal


def forward(shape, axis, kind="softmax"):
    def make(dtype):
        x = normal(*shape, dtype=dtype, scale=3.0)
        y = torch.empty_like(x)
        f = torch.softmax if kind == "softmax" else torch.log_softmax
        return dict(op="softmax", fields=dict(kind=kind, dtype=dtype, shape=shape, axis=axis), args=dict(x=x, y=y), out=dict(y=f(x.double(), axis)),
                    bytes=2 * x.nbytes, torch=lambda: f(x, axis), repeats=20)
    return make


def backward(shape, axis, kind="softmax"):
    def make(dtype):
        x, dy = normal(*shape, dtype=dtype, scale=3.0), normal(*shape, dtype=dtype)
        log = kind == "log_softmax"
        y = (torch.log_softmax if log else torch.softmax)(x, axis)
        dx = torch.empty_like(x)
        g, v = dy.double(), y.double()
        want = g - torch.exp(v) * g.sum(axis, keepdim=True) if log else v * (g - (g * v).sum(axis, keepdim=True))
        f = torch._log_softmax_backward_data if log else torch._softmax_backward_data
        return dict(op="softmax_backward", fields=dict(kind=kind, dtype=dtype, shape=shape, axis=axis), args=dict(dy=dy, y=y, dx=dx), out=dict(dx=want),
                    bytes=3 * x.nbytes, torch=lambda: f(dy, y, axis, dtype), repeats=20)
    return make


for _shape, _axis in (((16384, 8192), 1), ((8192, 8192), 0), ((1 << 20, 64), 1), ((256, 262144), 1), ((1, 1 << 26), 1), ((64, 512, 2048), 1), ((8191, 8193), 1),
                      ((65536, 1024), 1), ((64, 4096), 1)):
    _label = f"{'x'.join(map(str, _shape))} axis {_axis}"
    case("softmax", f"softmax {_label}", HALVES_AND_F32)(forward(_shape, _axis))
    case("softmax", f"softmax_backward {_label}", HALVES_AND_F32)(backward(_shape, _axis))
for _shape in ((16384, 8192), (65536, 1024)):
    case("softmax", f"log_softmax {_shape[0]}x{_shape[1]}", HALVES_AND_F32)(forward(_shape, 1, "log_softmax"))
    case("softmax", f"log_softmax_backward {_shape[0]}x{_shape[1]}", HALVES_AND_F32)(backward(_shape, 1, "log_softmax"))
