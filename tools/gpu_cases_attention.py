import functools

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from gpu_cases import DEVICE, case, normal


def reference(q, k, v, dy, causal):
    """y, lse, dq, dk, dv in f64, a head at a time."""
    heads, group, scale = q.shape[1], q.shape[1] // k.shape[1], q.shape[-1] ** -0.5
    y, dq = torch.empty(dy.shape, dtype=torch.float64, device=DEVICE), torch.empty(q.shape, dtype=torch.float64, device=DEVICE)
    dk, dv = torch.zeros(k.shape, dtype=torch.float64, device=DEVICE), torch.zeros(v.shape, dtype=torch.float64, device=DEVICE)
    lse = torch.empty(q.shape[:3], dtype=torch.float64, device=DEVICE)
    hidden = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=DEVICE).triu(1 + k.shape[2] - q.shape[2]) if causal else None
    for b in range(q.shape[0]):
        for h in range(heads):
            g = h // group
            s = q[b, h].double() @ k[b, g].double().T * scale
            if causal:
                s.masked_fill_(hidden, -float("inf"))
            lse[b, h] = s.logsumexp(-1)
            p = torch.exp(s - lse[b, h, :, None])
            y[b, h] = p @ v[b, g].double()
            d = dy[b, h].double()
            dv[b, g] += p.T @ d
            ds = p * (d @ v[b, g].double().T - (d * y[b, h]).sum(-1, keepdim=True))
            dq[b, h] = ds @ k[b, g].double() * scale
            dk[b, g] += ds.T @ q[b, h].double() * scale
    return y, lse, dq, dk, dv


@functools.lru_cache(maxsize=1)  # forward and backward of a shape follow each other
def tensors(dtype, b, h, hk, sq, sk, d, causal):
    given = normal(b, h, sq, d, dtype=dtype), normal(b, hk, sk, d, dtype=dtype), normal(b, hk, sk, d, dtype=dtype), normal(b, h, sq, d, dtype=dtype)
    return given, reference(*given, causal)


def sdpa_case(b, h, hk, sq, sk, d, causal, backward, repeats=100, kernel=None):
    def make(dtype):
        (q, k, v, dy), (y, lse, dq, dk, dv) = tensors(dtype, b, h, hk, sq, sk, d, causal)
        fields = dict(dtype=dtype, batch=b, heads=h, kv_heads=hk, q_len=sq, k_len=sk, head_dim=d, causal=causal)
        pairs = b * h * (sq * sk - (sq * (sq - 1) // 2 if causal else 0))
        sums = torch.float64 if dtype == torch.float64 else torch.float32
        c = dict(fields=fields, repeats=repeats, tolerance={torch.float32: 4e-6, torch.float64: 1e-14}.get(dtype))
        c = {name: value for name, value in c.items() if value is not None}
        if kernel:
            c.update(preference=dict(require_kernel=kernel, allow_nondeterministic="true"), other_bits=backward)
        sdpa = torch.nn.functional.scaled_dot_product_attention
        backends = dict(cudnn=SDPBackend.CUDNN_ATTENTION, flash=SDPBackend.FLASH_ATTENTION) if dtype in (torch.bfloat16, torch.float16) else dict(efficient=SDPBackend.EFFICIENT_ATTENTION)
        if dtype == torch.float64 or sq != sk:  # torch's causal mask begins at the first key
            backends = {}
        if not backward:
            def theirs(backend):
                def run():
                    with sdpa_kernel(backend):
                        sdpa(q, k, v, is_causal=causal, enable_gqa=h != hk)
                return run
            return dict(c, op="flash_sdpa", args=dict(q=q, k=k, v=v, y=torch.empty_like(q), lse=torch.empty(b, h, sq, dtype=sums, device=DEVICE)),
                        out=dict(y=y, lse=lse), flops=4 * pairs * d, torch=None, others={name: theirs(e) for name, e in backends.items()})
        def theirs(backend):
            leaves = [t.clone().requires_grad_() for t in (q, k, v)]
            with sdpa_kernel(backend):
                out = sdpa(*leaves, is_causal=causal, enable_gqa=h != hk)
            return lambda: torch.autograd.grad(out, leaves, dy, retain_graph=True)
        return dict(c, op="flash_sdpa_backward", args=dict(dy=dy, q=q, k=k, v=v, y=y.to(dtype), lse=lse.to(sums), dq=torch.empty_like(q), dk=torch.empty_like(k), dv=torch.empty_like(v)),
                    out=dict(dq=dq, dk=dk, dv=dv), flops=10 * pairs * d, eager=True, torch=None, others={name: theirs(e) for name, e in backends.items()})
    return make


def name_of(b, h, hk, sq, sk, d, causal, backward):
    return f"sdpa{'_backward' if backward else ''} B{b} H{h}{f'/{hk}' if h != hk else ''} S{sq}{f'/{sk}' if sq != sk else ''} D{d} {'causal' if causal else 'full'}"


def add(dtypes, *shape, repeats=100, kernel=None):
    case("attention", name_of(*shape) + (f" by {kernel.split('.')[-1]}" if kernel else ""), dtypes)(sdpa_case(*shape, repeats=repeats, kernel=kernel))


for _dtype, *_shape in ((torch.bfloat16, 2, 16, 16, 4096, 4096, 128, True), (torch.bfloat16, 2, 16, 16, 4096, 4096, 128, False),
                        (torch.bfloat16, 2, 16, 16, 4096, 4096, 64, True), (torch.bfloat16, 2, 16, 16, 4096, 4096, 64, False),
                        (torch.bfloat16, 1, 8, 2, 4096, 4096, 256, True), (torch.float16, 2, 16, 16, 4096, 4096, 128, True),
                        (torch.float32, 1, 8, 8, 2048, 2048, 64, True), (torch.float64, 1, 8, 8, 2048, 2048, 64, True)):
    for _backward in (False, True):
        add((_dtype,), *_shape, _backward, repeats=100 if _dtype.itemsize == 2 else 10)
for _d, _s, _causal in ((64, 8192, True), (64, 8192, False), (128, 2048, True), (128, 8192, True), (128, 8192, False), (128, 16384, True), (256, 8192, True), (256, 8192, False)):
    for _backward in (False, True):  # 16384 tokens, 2048 wide
        add((torch.bfloat16,), 16384 // _s, 2048 // _d, 2048 // _d, _s, _s, _d, _causal, _backward, repeats=100 if _d < 256 else 10)
for _d, _s in ((64, 512), (64, 1024), (128, 384), (128, 512), (128, 1024), (256, 512), (256, 1024), (256, 2048)):  # short sequences, 2048 wide
    add((torch.bfloat16,), 16384 // _s, 2048 // _d, 2048 // _d, _s, _s, _d, True, True)


def decoding_reference(q, k, v, causal):
    """y and lse in f64, an item at a time."""
    b, h, sq, d = q.shape
    hk, sk = k.shape[1:3]
    y, lse = [], []
    for i in range(b):
        s = (q[i].double().reshape(hk, -1, d) @ k[i].double().transpose(1, 2) * d ** -0.5).view(h, sq, sk)
        if causal:
            s = s.masked_fill(torch.ones(sq, sk, dtype=torch.bool, device=DEVICE).triu(1 + sk - sq), -float("inf"))
        lse.append(s.logsumexp(-1))
        y.append((torch.exp(s - lse[-1][..., None]).view(hk, -1, sk) @ v[i].double()).view(h, sq, -1))
    return torch.stack(y), torch.stack(lse)


def decoding_case(b, h, hk, sq, sk, d):
    """Few queries over long caches; beside torch where its mask, which begins at the first key, hides nothing either."""
    def make(dtype):
        q, k, v = normal(b, h, sq, d, dtype=dtype), normal(b, hk, sk, d, dtype=dtype), normal(b, hk, sk, d, dtype=dtype)
        y, lse = decoding_reference(q, k, v, sq > 1)
        def theirs(backend):
            def run():
                with sdpa_kernel(backend):
                    torch.nn.functional.scaled_dot_product_attention(q, k, v, enable_gqa=h != hk)
            return run
        others = dict(cudnn=SDPBackend.CUDNN_ATTENTION, flash=SDPBackend.FLASH_ATTENTION) if sq == 1 else {}
        return dict(op="flash_sdpa", fields=dict(dtype=dtype, batch=b, heads=h, kv_heads=hk, q_len=sq, k_len=sk, head_dim=d, causal=True),
                    args=dict(q=q, k=k, v=v, y=torch.empty_like(q), lse=torch.empty(b, h, sq, dtype=torch.float32, device=DEVICE)),
                    out=dict(y=y, lse=lse), bytes=k.nbytes + v.nbytes, torch=None, others={name: theirs(e) for name, e in others.items()})
    return make


for _dtype, *_shape in ((torch.bfloat16, 8, 32, 8, 1, 16384, 128), (torch.bfloat16, 1, 32, 8, 1, 131072, 128), (torch.bfloat16, 1, 32, 8, 1, 16384, 128),
                        (torch.bfloat16, 1, 32, 8, 1, 1024, 128), (torch.bfloat16, 64, 32, 8, 1, 4096, 128), (torch.bfloat16, 256, 32, 8, 1, 1024, 128),
                        (torch.bfloat16, 8, 32, 32, 1, 8192, 128), (torch.float16, 8, 64, 8, 1, 16384, 128), (torch.bfloat16, 8, 32, 8, 4, 16384, 128),
                        (torch.bfloat16, 8, 32, 8, 16, 16384, 128), (torch.bfloat16, 8, 64, 8, 16, 16384, 128), (torch.bfloat16, 8, 32, 8, 1, 16384, 64),
                        (torch.bfloat16, 8, 32, 8, 1, 16384, 96), (torch.bfloat16, 8, 16, 8, 1, 16384, 192), (torch.float16, 8, 16, 8, 1, 16384, 256),
                        (torch.bfloat16, 8, 16, 8, 16, 8192, 256)):
    case("attention", f"decode {name_of(*_shape, True, False)}", (_dtype,))(decoding_case(*_shape))


def gradients_case(b, h, sq, sk, d, lengths=(), softcap=0.0, alibi=False, window=-1, top_left=False):
    """The causal backward with what changes its scores or its mask; lengths: of sequences that follow one another, instead of b, sq and sk."""
    def make(dtype):
        pieces = [(n, n) for n in lengths] or [(sq, sk)] * b
        slopes = 2.0 ** -torch.arange(1, h + 1, device=DEVICE).mul(8 / h)
        if lengths:
            q, k, v, dy = (normal(sum(lengths), h, d, dtype=dtype) for _ in range(4))
            cu = torch.tensor([0, *lengths], dtype=torch.int32, device=DEVICE).cumsum(0).int()
            items = [tuple(t[cu[i]:cu[i + 1]].transpose(0, 1) for t in (q, k, v, dy)) for i in range(len(lengths))]
        else:
            q, k, v, dy = normal(b, h, sq, d, dtype=dtype), normal(b, h, sk, d, dtype=dtype), normal(b, h, sk, d, dtype=dtype), normal(b, h, sq, d, dtype=dtype)
            items = list(zip(q, k, v, dy))
        results, pairs = [], 0
        for item, (nq, nk) in zip(items, pieces):
            distance = torch.arange(nq, device=DEVICE)[:, None] + (0 if top_left else nk - nq) - torch.arange(nk, device=DEVICE)
            hidden = (distance < 0) | ((distance > window) if window >= 0 else False)
            pairs += h * (nq * nk - int(hidden.sum()))
            heads = []
            for j in range(h):
                qj, kj, vj, dj = (t[j].double() for t in item)
                for t in (qj, kj, vj):
                    t.requires_grad_()
                x = qj @ kj.T * d ** -0.5
                if softcap:
                    x = softcap * torch.tanh(x / softcap)
                if alibi:
                    x = x - slopes[j].double() * distance.abs()
                x = x.masked_fill(hidden, -float("inf"))
                lse = x.logsumexp(-1)
                y = torch.exp(x - lse[:, None]) @ vj
                heads.append((y.detach(), lse.detach()[:, None], *torch.autograd.grad(y, (qj, kj, vj), dj)))
            results.append([torch.stack(t) for t in zip(*heads)])
        y, lse, dq, dk, dv = (torch.cat(t, 1).transpose(0, 1) if lengths else torch.stack(t) for t in zip(*results))
        lse = (lse.squeeze(-1).T if lengths else lse.squeeze(-1)).float().contiguous()
        fields = dict(dtype=dtype, batch=len(pieces), heads=h, q_len=max(n for n, _ in pieces), k_len=max(n for _, n in pieces), head_dim=d, causal=True, softcap=softcap, alibi=alibi,
                      window_left=window, align="top_left" if top_left else "bottom_right")
        args = dict(dy=dy, q=q, k=k, v=v, y=y.to(dtype).contiguous(), lse=lse, dq=torch.empty_like(q), dk=torch.empty_like(k), dv=torch.empty_like(v))
        if alibi:
            args["alibi_slopes"] = slopes
        if lengths:
            fields.update(varlen=True, total_q=sum(lengths), total_k=sum(lengths))
            args.update(cu_seqlens_q=cu, cu_seqlens_k=cu)
        return dict(op="flash_sdpa_backward", fields=fields, args=args, out=dict(dq=dq, dk=dk, dv=dv), flops=10 * pairs * d, torch=None)
    return make


def variants(make, prefix, widths):
    """Scores, masks and lengths, all of about the same work as the first."""
    for d in widths:
        h = 2048 // d
        for name, shape, options in (("plain", (2, h, 4096, 4096, d), {}), ("softcap", (2, h, 4096, 4096, d), dict(softcap=30.0)),
                                     ("ALiBi", (2, h, 4096, 4096, d), dict(alibi=True)), ("softcap ALiBi", (2, h, 4096, 4096, d), dict(softcap=30.0, alibi=True)),
                                     ("window 1024", (2, h, 9216, 9216, d), dict(window=1023)), ("top left", (2, h, 4096, 4096, d), dict(top_left=True)),
                                     ("S4000", (2, h, 4000, 4000, d), {}), ("queries 2048 keys 5120", (2, h, 2048, 5120, d), {}),
                                     ("sequences", (0, h, 0, 0, d), dict(lengths=(4096, 1000, 2500, 3000, 500, 1700)))):
            case("attention", f"{prefix} D{d} {name}", (torch.bfloat16,))(make(*shape, **options))


variants(gradients_case, "backward variant", (128, 64, 256))
for _dtype, *_shape in ((torch.float16, 2, 16, 16, 8192, 8192, 128, True), (torch.bfloat16, 1, 16, 4, 4096, 4096, 128, True), (torch.bfloat16, 1, 32, 8, 16384, 16384, 128, True),
                        (torch.float16, 1, 16, 16, 2048, 2048, 192, True), (torch.bfloat16, 1, 16, 16, 4096, 4096, 192, False), (torch.bfloat16, 1, 16, 16, 3000, 3000, 96, False),
                        (torch.bfloat16, 2, 16, 16, 4096, 4096, 96, True)):
    add((_dtype,), *_shape, True)


def variant_case(b, h, sq, sk, d, lengths=(), softcap=0.0, alibi=False, window=-1, top_left=False):
    """The causal forward with what changes its scores or its mask; lengths: of sequences that follow one another, instead of b, sq and sk."""
    def make(dtype):
        pieces = [(n, n) for n in lengths] or [(sq, sk)] * b
        slopes = 2.0 ** -torch.arange(1, h + 1, device=DEVICE).mul(8 / h)
        if lengths:
            q, k, v = (normal(sum(lengths), h, d, dtype=dtype) for _ in range(3))
            cu = torch.tensor([0, *lengths], dtype=torch.int32, device=DEVICE).cumsum(0).int()
            items = [tuple(t[cu[i]:cu[i + 1]].transpose(0, 1) for t in (q, k, v)) for i in range(len(lengths))]
        else:
            q, k, v = normal(b, h, sq, d, dtype=dtype), normal(b, h, sk, d, dtype=dtype), normal(b, h, sk, d, dtype=dtype)
            items = list(zip(q, k, v))
        y, lse, pairs = [], [], 0
        for (qi, ki, vi), (nq, nk) in zip(items, pieces):
            distance = torch.arange(nq, device=DEVICE)[:, None] + (0 if top_left else nk - nq) - torch.arange(nk, device=DEVICE)
            hidden = (distance < 0) | ((distance > window) if window >= 0 else False)
            pairs += h * (nq * nk - int(hidden.sum()))
            rows, sums = torch.empty(h, nq, d, dtype=torch.float64, device=DEVICE), torch.empty(h, nq, dtype=torch.float64, device=DEVICE)
            for j in range(h):
                s = qi[j].double() @ ki[j].double().T * d ** -0.5
                if softcap:
                    s = softcap * torch.tanh(s / softcap)
                if alibi:
                    s -= slopes[j].double() * distance.abs()
                s.masked_fill_(hidden, -float("inf"))
                sums[j] = s.logsumexp(-1)
                rows[j] = torch.exp(s - sums[j].nan_to_num(neginf=0)[:, None]) @ vi[j].double()
            y.append(rows), lse.append(sums)
        fields = dict(dtype=dtype, batch=len(pieces), heads=h, q_len=max(n for n, _ in pieces), k_len=max(n for _, n in pieces), head_dim=d, causal=True, softcap=softcap, alibi=alibi,
                      window_left=window, align="top_left" if top_left else "bottom_right")
        args = dict(q=q, k=k, v=v, y=torch.empty_like(q), lse=torch.empty(h, sum(lengths), device=DEVICE) if lengths else torch.empty(b, h, sq, device=DEVICE))
        if alibi:
            args["alibi_slopes"] = slopes
        if lengths:
            fields.update(varlen=True, total_q=sum(lengths), total_k=sum(lengths))
            args.update(cu_seqlens_q=cu, cu_seqlens_k=cu)
        want = (torch.cat(y, 1).transpose(0, 1), torch.cat(lse, 1)) if lengths else (torch.stack(y), torch.stack(lse))
        return dict(op="flash_sdpa", fields=fields, args=args, out=dict(y=want[0], lse=want[1]), flops=4 * pairs * d, torch=None)
    return make


variants(variant_case, "variant", (128, 64))
for _shape in ((1, 8, 8, 512, 512, 128, True), (1, 16, 16, 512, 512, 64, True), (4, 8, 8, 256, 256, 64, True), (1, 8, 8, 512, 512, 128, False), (1, 16, 16, 2048, 2048, 96, True), (1, 16, 16, 4096, 4096, 192, True),
               (1, 16, 16, 4096, 4096, 192, False), (2, 16, 16, 4096, 4096, 96, True), (2, 16, 16, 4096, 4096, 96, False)):
    add((torch.bfloat16,), *_shape, False)


def far_rows(backward):
    """Rows 2^30 elements apart, so that offsets pass 2^31."""
    def make(dtype):
        far, width, rows = 1 << 30, 16, 4
        memory = torch.zeros(3 * far + 16 * width, dtype=dtype, device=DEVICE)
        q, k, v, dy, y, dq, dk, dv = (memory.as_strided((1, 1, rows, width), (0, 0, far, 1), i * width) for i in range(8))
        for t in (q, k, v, dy):
            t.copy_(normal(1, 1, rows, width, dtype=dtype))
        want = reference(q, k, v, dy, True)
        lse = want[1].float()
        c = dict(fields=dict(dtype=dtype, q_len=rows, k_len=rows, head_dim=width, causal=True), torch=None, bytes=0)
        if not backward:
            return dict(c, op="flash_sdpa", args=dict(q=q, k=k, v=v, y=y, lse=lse), out=dict(y=want[0]))
        y.copy_(want[0])
        return dict(c, op="flash_sdpa_backward", args=dict(dy=dy, q=q, k=k, v=v, y=y, lse=lse, dq=dq, dk=dk, dv=dv), out=dict(zip(("dq", "dk", "dv"), want[2:])))
    return make


case("attention", "sdpa rows 2^30 apart", (torch.bfloat16,))(far_rows(False))
case("attention", "sdpa_backward rows 2^30 apart", (torch.bfloat16,))(far_rows(True))


for _dtype, *_shape in ((torch.bfloat16, 2, 16, 16, 4096, 4096, 128, True), (torch.bfloat16, 2, 16, 16, 4096, 4096, 128, False), (torch.bfloat16, 2, 16, 16, 4096, 4096, 64, True),
                        (torch.bfloat16, 1, 8, 2, 4096, 4096, 256, True), (torch.float16, 2, 16, 16, 4096, 4096, 128, True), (torch.bfloat16, 2, 16, 16, 4096, 4096, 96, False),
                        (torch.bfloat16, 4, 8, 8, 256, 256, 64, True)):
    add((_dtype,), *_shape, False, kernel="flash_sdpa.cuda.cudnn")
    add((_dtype,), *_shape, True, kernel="flash_sdpa_backward.cuda.cudnn")
