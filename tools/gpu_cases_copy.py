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


def cast_e8m0(dtype):
    x = normal(*SQUARE, dtype=dtype).abs()
    y = torch.empty_like(x, dtype=torch.uint8)
    return dict(op="cast_e8m0", fields=dict(dtype=dtype, shape=SQUARE), args=dict(x=x, y=y), out=dict(y=x.to(torch.float8_e8m0fnu).view(torch.uint8).double()), bytes=x.nbytes + y.nbytes,
                restore=lambda: y.fill_(7), tolerance=0.0, torch=lambda: x.to(torch.float8_e8m0fnu))


def cast_from_e8m0(dtype):
    x = torch.randint(100, 150, SQUARE, dtype=torch.uint8, device=DEVICE)
    y = torch.empty(SQUARE, dtype=dtype, device=DEVICE)
    return dict(op="cast_from_e8m0", fields=dict(dtype=dtype, shape=SQUARE), args=dict(x=x, y=y), out=dict(y=torch.exp2(x.double() - 127)), bytes=x.nbytes + y.nbytes,
                tolerance=0.0, torch=lambda: x.view(torch.float8_e8m0fnu).to(dtype))


def cast_packed(form):
    def make(dtype):
        x = normal(*SQUARE, dtype=torch.float32, scale=3.0).to(dtype)
        y = torch.empty(SQUARE[0], SQUARE[1] // 2, dtype=torch.uint8, device=DEVICE)
        v = x.double()
        a = v.abs().clamp(max=6)
        codes = torch.minimum(torch.minimum(2 * a, a + 2), a / 2 + 4).round() + 8 * v.signbit() if form == "e2m1" else v.trunc().clamp(-8, 7) % 16
        return dict(op="cast_packed", fields=dict(dtype=dtype, shape=SQUARE, format=form), args=dict(x=x, y=y), out=dict(y=codes[:, ::2] + 16 * codes[:, 1::2]), bytes=x.nbytes + y.nbytes,
                    restore=lambda: y.fill_(7), tolerance=0.0, torch=None)
    return make


def cast_from_packed(form):
    def make(dtype):
        x = torch.randint(0, 256, (SQUARE[0], SQUARE[1] // 2), dtype=torch.uint8, device=DEVICE)
        y = torch.empty(SQUARE, dtype=dtype, device=DEVICE)
        values = torch.tensor((0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6) if form == "e2m1" else tuple(range(8)) + tuple(range(-8, 0)), dtype=torch.float64, device=DEVICE)
        return dict(op="cast_from_packed", fields=dict(dtype=dtype, shape=SQUARE, format=form), args=dict(x=x, y=y),
                    out=dict(y=torch.stack((values[(x & 15).long()], values[(x >> 4).long()]), -1).view(SQUARE)), bytes=x.nbytes + y.nbytes, tolerance=0.0, torch=None)
    return make


case("copy", "cast to bf16", (torch.float32, torch.float64))(cast(torch.bfloat16))
case("copy", "cast to f32", (torch.bfloat16, torch.float16))(cast(torch.float32))
case("copy", "transpose", HALVES_AND_F32 + (torch.float64,))(transpose)
case("copy", "heads", (torch.bfloat16,))(heads)
case("copy", "fill", (torch.bfloat16, torch.float32))(fill)
case("copy", "cast_e8m0", (torch.bfloat16, torch.float32))(cast_e8m0)
case("copy", "cast_from_e8m0", (torch.bfloat16, torch.float32))(cast_from_e8m0)
for _form in ("e2m1", "int4"):
    case("copy", f"cast_packed {_form}", (torch.bfloat16, torch.float32))(cast_packed(_form))
    case("copy", f"cast_from_packed {_form}", (torch.bfloat16, torch.float32))(cast_from_packed(_form))
