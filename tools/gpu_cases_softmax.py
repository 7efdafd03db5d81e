import torch

from gpu_cases import case, normal


def forward(shape, axis, kind="softmax"):
    def make(dtype):
        x = normal(*shape, dtype=dtype, scale=3.0)
        y = torch.empty_like(x)
        f = torch.softmax if kind == "softmax" else torch.log_softmax
        return dict(op="softmax", fields=dict(kind=kind, dtype=dtype, shape=shape, axis=axis), args=dict(x=x, y=y), out=dict(y=f(x.double(), axis)),
                    bytes=2 * x.nbytes, torch=lambda: f(x, axis), repeats=10)
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
                    bytes=3 * x.nbytes, torch=lambda: f(dy, y, axis, dtype), repeats=10)
    return make


for _shape, _axis in (((16384, 8192), 1), ((8192, 8192), 0), ((1 << 20, 64), 1), ((256, 262144), 1), ((64, 512, 2048), 1), ((8191, 8193), 1), ((65535, 1023), 1),
                      ((262144, 127), 1), ((65536, 1024), 1),
                      ((1, 1 << 26), 1)):
    _label = f"{'x'.join(map(str, _shape))} axis {_axis}"
    _dtypes = (torch.bfloat16, torch.float16) if (_shape, _axis) == ((65536, 1024), 1) else (torch.bfloat16, torch.float32)
    case("softmax", f"softmax {_label}", _dtypes)(forward(_shape, _axis))
    case("softmax", f"softmax_backward {_label}", _dtypes)(backward(_shape, _axis))
case("softmax", "log_softmax 16384x8192", (torch.bfloat16, torch.float32))(forward((16384, 8192), 1, "log_softmax"))
case("softmax", "log_softmax_backward 16384x8192", (torch.bfloat16, torch.float32))(backward((16384, 8192), 1, "log_softmax"))
