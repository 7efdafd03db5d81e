import torch

from gpu_cases import HALVES_AND_F32, DEVICE, case


def random_case(kind, check):
    def make(dtype):
        n = 1 << 27
        y = torch.empty(n, dtype=dtype, device=DEVICE)
        out = torch.empty_like(y)
        return dict(op=f"random_{kind}", fields=dict(dtype=dtype, shape=(n,)), args=dict(y=y, seed=42, offset=0), out={}, moments=check, bytes=y.nbytes,
                    torch=(lambda: out.normal_()) if kind == "normal" else (lambda: out.uniform_()))
    return make


case("random", "uniform", HALVES_AND_F32)(random_case("uniform", (0.5, 1 / 12)))
case("random", "normal", HALVES_AND_F32)(random_case("normal", (0.0, 1.0)))
