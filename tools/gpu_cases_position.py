import torch

from gpu_cases import DEVICE, case, normal


def rope_case(op, memory, pairing, heads, positions):
    """16384 tokens of that many heads of 128; memory: the order of the axes, bshd or bhsd."""
    def make(dtype):
        batch, length, width = 8, 2048, 128
        sizes = (batch, length, heads, width) if memory == "bshd" else (batch, heads, length, width)
        view = (lambda t: t.transpose(1, 2)) if memory == "bshd" else (lambda t: t)
        x = view(normal(*sizes, dtype=dtype))
        y = view(torch.empty(*sizes, dtype=dtype, device=DEVICE))
        at = torch.arange(length, device=DEVICE, dtype=torch.float64) + 3
        angle = at[:, None] * 10000.0 ** (-torch.arange(0, width, 2, device=DEVICE, dtype=torch.float64) / width)
        cosine, sine = angle.cos(), angle.sin() * (-1 if op == "rope_backward" else 1)
        half = width // 2
        a, b = (x[..., 0::2], x[..., 1::2]) if pairing == "interleaved" else (x[..., :half], x[..., half:])
        first, second = a.double() * cosine - b.double() * sine, b.double() * cosine + a.double() * sine
        want = torch.stack((first, second), -1).flatten(-2) if pairing == "interleaved" else torch.cat((first, second), -1)
        c, s = torch.cat((cosine, cosine), -1).to(dtype), torch.cat((-sine, sine), -1).to(dtype)
        theirs = (lambda: x * c + torch.cat((x[..., half:], x[..., :half]), -1) * s) if pairing == "half_split" and op == "rope" else None
        names = ("x", "y") if op == "rope" else ("dy", "dx")
        args = {names[0]: x, names[1]: y}
        if positions:
            args["positions"] = (at[None].to(torch.int64) + torch.zeros(batch, 1, dtype=torch.int64, device=DEVICE))
        else:
            args["offset"] = 3
        return dict(op=op, fields=dict(dtype=dtype, shape=tuple(x.shape), pairing=pairing), args=args, out={names[1]: want}, bytes=2 * x.nbytes,
                    torch=theirs)
    return make


for _op in ("rope", "rope_backward"):
    for _memory, _pairing, _heads, _positions in (("bshd", "half_split", 32, False), ("bhsd", "half_split", 32, True), ("bshd", "interleaved", 32, False),
                                                  ("bshd", "half_split", 1, False)):
        if _op == "rope" or _heads == 32 and _memory == "bshd":
            case("position", f"{_op} 16384x{_heads}x128 {_pairing} {_memory}{' positions' if _positions else ''}", (torch.bfloat16, torch.float32))(
                rope_case(_op, _memory, _pairing, _heads, _positions))


def append_case(tokens):
    def make(dtype):
        batch, heads, capacity, width = 64, 8, 4096, 128
        k, v = normal(batch, heads, tokens, width, dtype=dtype), normal(batch, heads, tokens, width, dtype=dtype)
        k_cache, v_cache = (torch.zeros(batch, heads, capacity, width, dtype=dtype, device=DEVICE) for _ in range(2))
        lengths = torch.arange(batch, dtype=torch.int32, device=DEVICE) * 40
        rows = lengths.long()[:, None] + torch.arange(tokens, device=DEVICE)
        b = torch.arange(batch, device=DEVICE)[:, None]

        def theirs():
            k_cache[b, :, rows] = k.transpose(1, 2)
            v_cache[b, :, rows] = v.transpose(1, 2)
        wk, wv = torch.full_like(k_cache, float("nan")), torch.full_like(v_cache, float("nan"))
        wk[b, :, rows], wv[b, :, rows] = k.transpose(1, 2), v.transpose(1, 2)
        return dict(op="kv_cache_append", fields=dict(dtype=dtype, batch=batch, heads=heads, tokens=tokens, capacity=capacity, head_dim=width),
                    args=dict(k=k, v=v, lengths=lengths, k_cache=k_cache, v_cache=v_cache), out=dict(k_cache=wk, v_cache=wv), bytes=4 * k.nbytes, torch=theirs)
    return make


for _tokens in (1, 512):
    case("position", f"kv_cache_append 64x8x{_tokens}x128 into 4096", (torch.bfloat16,))(append_case(_tokens))
