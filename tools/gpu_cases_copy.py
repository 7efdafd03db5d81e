import torch

from gpu_cases import DEVICE, HALVES_AND_F32, case, normal

SQUARE = (8192, 8192)


def cast(to):
    def make(dtype):
        x = normal(*SQUARE, dtype=dtype)
        y = torch.empty_like(x, dtype=to)
        return dict(op="cast", fields=dict(dtype=dtype, to=to, shape=SQUARE), args=dict(x=x, y=y), out=dict(y=x.to(to).double()), bytes=x.nbytes + y.nbytes, torch=lambda: x.to(to))
    return make


def transpose(dtype):
    x = normal(*SQUARE, dtype=dtype)
    y = torch.empty_like(x)
    return dict(op="copy", fields=dict(dtype=dtype, shape=SQUARE), args=dict(x=x.t(), y=y), out=dict(y=x.t().double()), bytes=2 * x.nbytes, torch=lambda: y.copy_(x.t()))


def heads(dtype):  # [B, T, H, D] to [B, H, T, D]
    x = normal(16, 1024, 16, 128, dtype=dtype)
    y = torch.empty(16, 16, 1024, 128, dtype=dtype, device=DEVICE)
    return dict(op="copy", fields=dict(dtype=dtype, shape=y.shape), args=dict(x=x.transpose(1, 2), y=y), out=dict(y=x.transpose(1, 2).double()), bytes=2 * x.nbytes,
                torch=lambda: y.copy_(x.transpose(1, 2)))


def fill(dtype):
    y = torch.empty(SQUARE, dtype=dtype, device=DEVICE)
    return dict(op="fill", fields=dict(dtype=dtype, shape=SQUARE), args=dict(y=y, value=3.0), out=dict(y=torch.full(SQUARE, 3.0, device=DEVICE, dtype=torch.float64)), bytes=y.nbytes,
                torch=lambda: y.fill_(3.0))


case("copy", "cast to bf16", (torch.float32, torch.float64))(cast(torch.bfloat16))
case("copy", "cast to f32", (torch.bfloat16, torch.float16))(cast(torch.float32))
case("copy", "transpose", HALVES_AND_F32 + (torch.float64,))(transpose)
case("copy", "heads", (torch.bfloat16,))(heads)
case("copy", "fill", (torch.bfloat16, torch.float32))(fill)
