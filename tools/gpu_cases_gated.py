import torch

from gpu_cases import ALL, case, normal


@case("gated", "swiglu", ALL)
def swiglu(dtype):
    n = (16384, 4096)
    gate, up = normal(*n, dtype=dtype), normal(*n, dtype=dtype)
    y = torch.empty_like(gate)
    g, u = gate.double(), up.double()
    return dict(op="gated", fields=dict(kind="swiglu", dtype=dtype, shape=n), args=dict(gate=gate, up=up, y=y), out=dict(y=g * torch.sigmoid(g) * u),
                bytes=3 * y.nbytes, torch=lambda: torch.nn.functional.silu(gate) * up)


@case("gated", "swiglu_backward", ALL)
def swiglu_backward(dtype):
    n = (16384, 4096)
    dy, gate, up = (normal(*n, dtype=dtype) for _ in range(3))
    dgate, dup = torch.empty_like(gate), torch.empty_like(up)
    g, s = gate.double(), torch.sigmoid(gate.double())
    return dict(op="gated_backward", fields=dict(kind="swiglu", dtype=dtype, shape=n), args=dict(dy=dy, gate=gate, up=up, dgate=dgate, dup=dup),
                out=dict(dgate=dy.double() * up.double() * s * (1 + g * (1 - s)), dup=dy.double() * g * s), bytes=5 * dy.nbytes, torch=None)
