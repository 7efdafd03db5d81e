import torch

from gpu_cases import ALL, DEVICE, case, normal


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


def quantized(dynamic):
    def make(dtype):
        n = (16384, 4096)
        gate, up = normal(*n, dtype=dtype), normal(*n, dtype=dtype)
        y = torch.empty(n, dtype=torch.float8_e4m3fn, device=DEVICE)
        v = gate.double() * torch.sigmoid(gate.double()) * up.double()
        scale = torch.empty(n[0], device=DEVICE) if dynamic else torch.full((1,), 0.01, device=DEVICE)
        s = v.abs().amax(1, keepdim=True) / 448 if dynamic else 0.01

        def theirs():
            t = (torch.nn.functional.silu(gate) * up).float()
            return (t / (t.abs().amax(1, keepdim=True) / 448 if dynamic else scale)).clamp(-448, 448).to(torch.float8_e4m3fn)
        out = dict(y=(v / s).clamp(-448, 448).to(torch.float8_e4m3fn).double(), **(dict(scale=s.view(-1)) if dynamic else {}))
        return dict(op="gated_quantize_dynamic" if dynamic else "gated_quantize", fields=dict(kind="swiglu", dtype=dtype, shape=n), args=dict(gate=gate, up=up, y=y, scale=scale),
                    written=dict(y=y, **(dict(scale=scale) if dynamic else {})), out=out, bytes=2 * gate.nbytes + y.nbytes, restore=lambda: y.view(torch.uint8).fill_(127), tolerance=3e-3, torch=theirs)
    return make


case("gated", "swiglu to f8", (torch.bfloat16, torch.float32))(quantized(False))
case("gated", "swiglu to f8, scale of each row", (torch.bfloat16, torch.float32))(quantized(True))
