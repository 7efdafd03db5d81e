import torch

from gpu_cases import DEVICE, case, normal

N = (16384, 8192)
TYPES = (torch.bfloat16, torch.float32)


def scales(shape, dtype):
    return (torch.rand(shape, device=DEVICE, dtype=torch.float64) * 0.02 + 0.01).to(torch.float64 if dtype == torch.float64 else torch.float32)


def by_of(by, n=N):
    """The fields, the scale's shape, and how it stands beside the values (which `values` views)."""
    if by == "token":
        return {}, n[:1], lambda s: s[:, None], lambda x: x
    if by == "tensor":
        return {}, (), lambda s: s, lambda x: x
    if by == "group":
        return dict(group_size=128), (n[0], n[1] // 128), lambda s: s[:, :, None], lambda x: x.view(n[0], -1, 128)
    axis = int(by[-1])
    return dict(axis=axis), (n[axis],), lambda s: s[:, None] if axis == 0 else s, lambda x: x


WAYS = ("token", "tensor", "group", "channel0", "channel1")


def codes_of(x, s):
    return (x.float() / s).round().clamp(-128, 127) if x.dtype != torch.float64 else (x / s).round().clamp(-128, 127)


for way in WAYS:
    @case("quantize", f"quantize by {way}", TYPES if way == "token" else (torch.bfloat16,))
    def quantize(dtype, way=way):
        fields, shape, beside, view = by_of(way)
        x, s, y = normal(*N, dtype=dtype), scales(shape, dtype), torch.empty(N, dtype=torch.int8, device=DEVICE)
        return dict(op="quantize", fields=dict(dtype=dtype, shape=N, by=way[:7] if way[:7] == "channel" else way, **fields), args=dict(x=x, scale=s, y=y),
                    out=dict(y=codes_of(view(x), beside(s)).view(N).double()), bytes=x.nbytes + y.nbytes, restore=lambda: y.fill_(99), tolerance=0.0,
                    torch=lambda: (view(x) / beside(s)).round().clamp(-128, 127).to(torch.int8))

    @case("quantize", f"dequantize by {way}", TYPES if way == "token" else (torch.bfloat16,))
    def dequantize(dtype, way=way):
        fields, shape, beside, view = by_of(way)
        x, s, y = torch.randint(-128, 128, N, dtype=torch.int8, device=DEVICE), scales(shape, dtype), torch.empty(N, dtype=dtype, device=DEVICE)
        return dict(op="dequantize", fields=dict(dtype=dtype, shape=N, by=way[:7] if way[:7] == "channel" else way, **fields), args=dict(x=x, scale=s, y=y),
                    out=dict(y=(view(x).double() * beside(s)).view(N)), bytes=x.nbytes + y.nbytes, torch=lambda: (view(x) * beside(s)).to(dtype))

    @case("quantize", f"quantize_dynamic by {way}", TYPES if way == "token" else (torch.bfloat16,))
    def quantize_dynamic(dtype, way=way):
        fields, shape, beside, view = by_of(way)
        x, s, y = normal(*N, dtype=dtype), torch.empty(shape, dtype=torch.float32, device=DEVICE), torch.empty(N, dtype=torch.int8, device=DEVICE)
        along = dict(token=(1,), tensor=(0, 1), group=(2,), channel0=(1,), channel1=(0,))[way]
        scale = (view(x).abs().amax(along).double() / 127).float()
        return dict(op="quantize_dynamic", fields=dict(dtype=dtype, shape=N, by=way[:7] if way[:7] == "channel" else way, **fields), args=dict(x=x, scale=s, y=y),
                    written=dict(y=y, scale=s.view(-1)), out=dict(y=codes_of(view(x), beside(scale)).view(N).double(), scale=scale.double().view(-1)),
                    bytes=(1 if way in ("token", "group", "channel0") else 2) * x.nbytes + y.nbytes, restore=lambda: [y.fill_(99), s.fill_(7)], tolerance=0.0,
                    torch=lambda: (view(x) / (view(x).abs().amax(along, keepdim=True) / 127)).round().to(torch.int8))


@case("quantize", "fake_quantize by token", TYPES)
def fake_quantize(dtype):
    x, s = normal(*N, dtype=dtype), scales(N[:1], dtype)
    y = torch.empty_like(x)
    return dict(op="fake_quantize", fields=dict(dtype=dtype, shape=N, by="token"), args=dict(x=x, scale=s, y=y), out=dict(y=codes_of(x, s[:, None]).double() * s[:, None]),
                bytes=x.nbytes + y.nbytes, torch=lambda: ((x / s[:, None]).round().clamp(-128, 127) * s[:, None]).to(dtype))


@case("quantize", "dequantize_backward by token", TYPES)
def dequantize_backward(dtype):
    dy, s = normal(*N, dtype=dtype), scales(N[:1], dtype)
    dx = torch.empty_like(dy)
    return dict(op="dequantize_backward", fields=dict(dtype=dtype, shape=N, by="token"), args=dict(dy=dy, scale=s, dx=dx), out=dict(dx=dy.double() * s[:, None]),
                bytes=dy.nbytes + dx.nbytes, torch=lambda: (dy * s[:, None]).to(dtype))


def fake_backward(dtype, way, with_sum):
    fields, shape, beside, view = by_of(way)
    dy, x, s = normal(*N, dtype=dtype), normal(*N, dtype=dtype), scales(shape, dtype)
    dx, ds = torch.empty_like(dy), torch.empty_like(s)
    v = x.float() / beside(s)
    inside = (v.round() >= -128) & (v.round() <= 127)
    want = dict(dx=dy.double() * inside)
    if with_sum:
        along = dict(token=(1,), tensor=(0, 1))[way]
        want["dscale"] = (dy.double() * torch.where(inside, v.round().double() - v.double(), v.round().clamp(-128, 127).double())).sum(along).view(-1)
    args = dict(dy=dy, x=x, scale=s, dx=dx, **(dict(dscale=ds) if with_sum else {}))
    return dict(op="fake_quantize_backward", fields=dict(dtype=dtype, shape=N, by=way, **fields), args=args, written={k: args[k].view(-1) if k == "dscale" else args[k] for k in want}, out=want, bytes=3 * dy.nbytes,
                torch=lambda: dy * ((x / beside(s)).round().abs() <= 127), tolerance=1e-2)


@case("quantize", "fake_quantize_backward by token", TYPES)
def fake_backward_token(dtype):
    return fake_backward(dtype, "token", False)


@case("quantize", "fake_quantize_backward by token, with dscale", TYPES)
def fake_backward_dscale(dtype):
    return fake_backward(dtype, "token", True)


@case("quantize", "fake_quantize_backward by tensor, with dscale", (torch.bfloat16,))
def fake_backward_tensor(dtype):
    return fake_backward(dtype, "tensor", True)


E2M1 = (0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6)
NF4 = (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334, -0.09105003625154495, 0.0,
       0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0)

for name, block, table, high in (("nf4", 64, NF4, True), ("int4", 128, tuple(range(-8, 8)), False)):
    @case("quantize", f"dequantize_packed {name}", (torch.bfloat16, torch.float32))
    def dequantize_packed(dtype, name=name, block=block, table=table, high=high):
        x = torch.randint(0, 256, (N[0], N[1] // 2), dtype=torch.uint8, device=DEVICE)
        s, y = torch.rand(N[0], N[1] // block, device=DEVICE) + 0.5, torch.empty(N, dtype=dtype, device=DEVICE)
        values = torch.tensor(table, dtype=torch.float64, device=DEVICE)
        a, b = values[(x >> 4).long()], values[(x & 15).long()]
        v = torch.stack((a, b) if high else (b, a), -1).view(N[0], -1, block)
        return dict(op="dequantize_packed", fields=dict(dtype=dtype, shape=N, format=name), args=dict(x=x, scale=s, y=y), out=dict(y=(v * s[:, :, None].double()).view(N)),
                    bytes=x.nbytes + y.nbytes + s.nbytes, torch=None)

    @case("quantize", f"quantize_packed {name}", (torch.bfloat16,))
    def quantize_packed(dtype, name=name, block=block, table=table, high=high):
        x = normal(*N, dtype=dtype)
        y, s = torch.empty((N[0], N[1] // 2), dtype=torch.uint8, device=DEVICE), torch.empty(N[0], N[1] // block, device=DEVICE)
        most = x.view(N[0], -1, block).abs().amax(-1).double() / (7 if name == "int4" else 1)
        return dict(op="quantize_packed", fields=dict(dtype=dtype, shape=N, format=name), args=dict(x=x, scale=s, y=y), written=dict(scale=s), out=dict(scale=most.float().double()),
                    bytes=x.nbytes + y.nbytes + s.nbytes, restore=lambda: s.fill_(0), tolerance=0.0, torch=None)

for name, block, kept in (("mxfp4", 32, torch.uint8), ("nvfp4", 16, torch.float8_e4m3fn)):
    @case("quantize", f"quantize_packed {name}", TYPES)
    def quantize_e2m1(dtype, name=name, block=block, kept=kept):
        x = normal(*N, dtype=dtype)
        y, s = torch.empty((N[0], N[1] // 2), dtype=torch.uint8, device=DEVICE), torch.empty(N[0], N[1] // block, dtype=kept, device=DEVICE)
        most = x.view(N[0], -1, block).abs().amax(-1)
        power = torch.frexp(most.float()).exponent.double() - 3
        scale = power + 127 if kept == torch.uint8 else (most.double() / 6).float().to(kept).double()
        q = (x.view(N[0], -1, block).double() / (2 ** power if kept == torch.uint8 else scale)[:, :, None]).view(N)
        a = q.abs()
        codes = q.signbit().byte() * 8 + (a > 0.25) + (a >= 0.75) + (a > 1.25) + (a >= 1.75) + (a > 2.5) + (a >= 3.5) + (a > 5)
        return dict(op="quantize_packed", fields=dict(dtype=dtype, shape=N, format=name), args=dict(x=x, scale=s, y=y),
                    out=dict(scale=scale, y=(codes[:, ::2] + codes[:, 1::2] * 16).double()), bytes=x.nbytes + y.nbytes + s.nbytes,
                    restore=lambda: s.view(torch.uint8).fill_(0), tolerance=0.0, repeats=10, torch=None)
