import torch

from gpu_cases import ALL, HALVES_AND_F32, case, normal

HALVES, BF16_AND_F32 = (torch.bfloat16, torch.float16), (torch.bfloat16, torch.float32)
TILE = {"require_kernel": "gemm.cuda.tile"}
OWN = {"require_kernel": "gemm.cuda.wgmma"}
TF32 = {"allow_tf32": True}


def product(m, n, k, trans_b=False, preference=None, tolerance=None, **fields):
    """a [m, k] times b, with what `fields` adds."""
    def make(dtype):
        a, b = normal(m, k, dtype=dtype), normal(*((n, k) if trans_b else (k, n)), dtype=dtype, scale=k ** -0.5)
        out = torch.float32 if fields.get("out") == "f32" else dtype
        c = torch.empty(m, n, dtype=out, device=a.device)
        bias = normal(n, dtype=dtype) if fields.get("bias") == "row" else None
        right = b.t() if trans_b else b
        want = a.double() @ right.double()
        if bias is not None:
            want = want + bias.double()
        act = {"gelu": torch.nn.functional.gelu, "silu": torch.nn.functional.silu, "relu": torch.relu}.get(fields.get("epilogue"), lambda x: x)
        theirs = (lambda: act(torch.addmm(bias, a, right))) if bias is not None else lambda: act(torch.mm(a, right))
        # Sums of k terms differ from exact ones by about sqrt(k) roundings; tensor cores cut instead, which costs up to twice that.
        unit = {torch.bfloat16: 2.0 ** -9, torch.float16: 2.0 ** -12, torch.float32: 0, torch.float64: 0}[out]
        limit = tolerance or unit + 2 * k ** 0.5 * 2.0 ** (-53 if out == torch.float64 else -24)
        return dict(op="gemm", fields=dict(dtype=dtype, m=m, n=n, k=k, trans_b=trans_b, preference=preference, **fields), args=dict(a=a, b=b, c=c, bias=bias),
                    out=dict(c=act(want)), flops=2 * m * n * k, torch=None if fields.get("out") else theirs, tolerance=limit, repeats=20)
    return make


case("gemm", "8192x8192x8192", HALVES)(product(8192, 8192, 8192))
case("gemm", "4096x4096x4096 nt", ALL)(product(4096, 4096, 4096, trans_b=True))
case("gemm", "4097x4095x4099", BF16_AND_F32)(product(4097, 4095, 4099))
case("gemm", "8192x4096x1024 bias", HALVES)(product(8192, 4096, 1024, trans_b=True, bias="row"))
case("gemm", "8192x4096x1024 bias gelu", HALVES_AND_F32)(product(8192, 4096, 1024, trans_b=True, bias="row", epilogue="gelu"))
case("gemm", "8192x4096x1024 relu", HALVES_AND_F32)(product(8192, 4096, 1024, trans_b=True, epilogue="relu"))
case("gemm", "4096x4096x4096 to f32", (torch.bfloat16,))(product(4096, 4096, 4096, out="f32"))
case("gemm", "16x16384x4096 nt", BF16_AND_F32)(product(16, 16384, 4096, trans_b=True))
case("gemm", "2048x2048x2048 tile", ALL)(product(2048, 2048, 2048, preference=TILE))
case("gemm", "8192x8192x8192 wgmma", HALVES)(product(8192, 8192, 8192, preference=OWN))
case("gemm", "4096x4096x4096 nt wgmma", HALVES)(product(4096, 4096, 4096, trans_b=True, preference=OWN))
case("gemm", "4096x4096x4096 to f32 wgmma", (torch.bfloat16,))(product(4096, 4096, 4096, out="f32", preference=OWN))
case("gemm", "4096x4096x4096 tf32", (torch.float32,))(product(4096, 4096, 4096, preference=TF32, tolerance=1e-3))
