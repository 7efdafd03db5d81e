import torch

from gpu_cases import DEVICE, HALVES_AND_F32, case, normal

F = torch.nn.functional


def some_targets(tokens, classes):
    target = torch.randint(0, classes, (tokens,), device=DEVICE)
    target[::7] = -100
    return target


def cross_entropy(tokens, classes, backward=False):
    """Loss and gradient in one call, or the gradient alone from the forward's lse."""
    def make(dtype):
        logits, target = normal(tokens, classes, dtype=dtype, scale=2.0), some_targets(tokens, classes)
        acc = torch.float32
        loss, dlogits = torch.empty(1, device=DEVICE, dtype=acc), torch.empty_like(logits)
        x = logits.double().requires_grad_()
        want = F.cross_entropy(x, target, reduction="sum")  # gradients of a mean leave the range of f16
        gradient, = torch.autograd.grad(want, x)
        lse = torch.logsumexp(x.detach(), 1).masked_fill(target < 0, 0).to(acc)
        leaf = logits.clone().requires_grad_()
        del x

        def theirs():
            return torch.autograd.grad(F.cross_entropy(leaf, target, reduction="sum"), leaf)
        problem = dict(dtype=dtype, tokens=tokens, classes=classes, reduction="sum")
        common = dict(bytes=logits.nbytes + logits.nbytes * int((target >= 0).sum()) // tokens, tolerance=2.0 ** {torch.bfloat16: -8, torch.float16: -9, torch.float32: -19}[dtype], repeats=5)
        if backward:
            return dict(op="cross_entropy_backward", fields=problem,
                        args=dict(logits=logits, target=target, lse=lse, dlogits=dlogits), out=dict(dlogits=gradient), torch=None, **common)
        return dict(op="cross_entropy", fields=dict(grad_logits=True, **problem),
                    args=dict(logits=logits, target=target, loss=loss, dlogits=dlogits), out=dict(loss=want.detach().reshape(1), dlogits=gradient), torch=theirs, **common)
    return make


def forward_alone(tokens, classes):
    def make(dtype):
        logits, target = normal(tokens, classes, dtype=dtype, scale=2.0), some_targets(tokens, classes)
        loss = torch.empty(1, device=DEVICE, dtype=torch.float32)
        return dict(op="cross_entropy", fields=dict(dtype=dtype, tokens=tokens, classes=classes), args=dict(logits=logits, target=target, loss=loss),
                    out=dict(loss=F.cross_entropy(logits.double(), target).reshape(1)), bytes=logits.nbytes * int((target >= 0).sum()) // tokens, tolerance=2.0 ** -20, repeats=20,
                    torch=lambda: F.cross_entropy(logits, target))
    return make


def products(x, w, rows=2048):
    """The three products of the fused loss and nothing else, by torch, in chunks; dw added to in the dtype of w."""
    logits, dx, dw = torch.empty(min(rows, len(x)), len(w), device=DEVICE, dtype=x.dtype), torch.empty_like(x), torch.zeros_like(w)

    def run():
        for part, out in zip(x.split(rows), dx.split(rows)):
            torch.mm(part, w.t(), out=logits[:len(part)])
            dw.addmm_(logits[:len(part)].t(), part)
            torch.mm(logits[:len(part)], w, out=out)
    return run


def fused(tokens, hidden, classes, preference=None, beside=True, judged=True, tolerance=None, ignored=0, floor=False, options=(), evaluation=False, **fields):
    """Loss, dx and dw of x w^T; the oracle in blocks of rows. ignored: the share of targets that are. options: arguments that weight rows."""
    def make(dtype):
        x, w, target = normal(tokens, hidden, dtype=dtype), normal(classes, hidden, dtype=dtype, scale=2.0 * hidden ** -0.5), torch.randint(0, classes, (tokens,), device=DEVICE)
        target[torch.rand(tokens, device=DEVICE) < ignored] = -100
        acc = torch.float64 if dtype == torch.float64 else torch.float32
        loss, dx, dw = torch.empty(tokens if fields.get("reduction") == "none" else 1, device=DEVICE, dtype=acc), torch.empty_like(x), torch.empty_like(w, dtype={"f32": torch.float32}.get(fields.get("dw_dtype"), dtype))
        kept, out = (target >= 0).sum(), {}
        if judged:
            wide, want_dx, want_dw, want = w.double(), torch.empty_like(x, dtype=torch.float64), torch.zeros(classes, hidden, device=DEVICE, dtype=torch.float64), 0
            for rows in torch.arange(tokens, device=DEVICE).split(2048):
                logits = (x[rows].double() @ wide.t()).requires_grad_()
                part = F.cross_entropy(logits, target[rows], reduction="sum") / kept
                g, = torch.autograd.grad(part, logits)
                want, want_dx[rows] = want + part.detach(), g @ wide
                want_dw += g.t() @ x[rows].double()
            out = dict(loss=want.reshape(1), dx=want_dx, dw=want_dw)
            del wide, logits, g
        more = {name: torch.rand(tokens, device=DEVICE, dtype=acc) for name in options if name != "bias"}
        if "bias" in options:
            more["bias"] = normal(1, classes, dtype=dtype)[0]
        gradients = {} if evaluation else dict(dx=dx, dw=dw)
        lx, lw = (x.clone().requires_grad_(), w.clone().requires_grad_()) if beside else (None, None)
        theirs = lambda: torch.autograd.grad(F.cross_entropy(F.linear(lx, lw), target), (lx, lw))
        # The gradient of the logits is rounded once, and dx and dw again.
        return dict(op="fused_linear_cross_entropy", fields=dict(dtype=dtype, tokens=tokens, hidden=hidden, classes=classes, grad_x=not evaluation, grad_w=not evaluation, bias="bias" in options, preference=preference, **fields),
                    args=dict(x=x, w=w, target=target, loss=loss, **gradients, **more), written=dict(loss=loss, **gradients), out=out, flops=(2 if evaluation else 6) * int(kept) * hidden * classes,
                    tolerance=tolerance or 2.0 ** {torch.bfloat16: -8, torch.float16: -10, torch.float32: -18, torch.float64: -40}[dtype], repeats=5, torch=theirs if beside else None,
                    others=dict(products=products(x, w)) if floor else {})
    return make


HALF, BF16_AND_F32 = (torch.bfloat16,), (torch.bfloat16, torch.float32)
case("loss", "cross_entropy with gradient 16384x32000", HALVES_AND_F32)(cross_entropy(16384, 32000))
case("loss", "cross_entropy with gradient 8192x50257", BF16_AND_F32)(cross_entropy(8192, 50257))
case("loss", "cross_entropy with gradient 4096x131072", BF16_AND_F32)(cross_entropy(4096, 131072))
case("loss", "cross_entropy with gradient 8192x50304", BF16_AND_F32)(cross_entropy(8192, 50304))
case("loss", "cross_entropy with gradient 4096x128256", BF16_AND_F32)(cross_entropy(4096, 128256))
case("loss", "cross_entropy with gradient 2048x256000", BF16_AND_F32)(cross_entropy(2048, 256000))
case("loss", "cross_entropy with gradient 2048x300000", BF16_AND_F32)(cross_entropy(2048, 300000))
case("loss", "cross_entropy with gradient 65536x4096", BF16_AND_F32)(cross_entropy(65536, 4096))
case("loss", "cross_entropy with gradient 262144x1000", BF16_AND_F32)(cross_entropy(262144, 1000))
case("loss", "cross_entropy with gradient 1048576x100", BF16_AND_F32)(cross_entropy(1048576, 100))
case("loss", "cross_entropy with gradient 262144x513", HALF)(cross_entropy(262144, 513))
for t, v in ((1048576, 100), (262144, 1000), (65536, 4096), (8192, 50257), (2048, 256000)):
    case("loss", f"cross_entropy {t}x{v}", HALF)(forward_alone(t, v))
case("loss", "cross_entropy_backward 16384x32000", BF16_AND_F32)(cross_entropy(16384, 32000, backward=True))
case("loss", "cross_entropy 16384x32000", BF16_AND_F32)(forward_alone(16384, 32000))
MIB = 1 << 20
for t, h, v in ((4096, 4096, 32000), (8192, 4096, 128256), (16384, 4096, 128256), (16384, 2048, 256000)):
    for mib, copy in ((1024, v * h * 4), (512, v * h * 4), (256, 0)):
        case("loss", f"fused {t}x{h}x{v} in {mib} MiB{' and dw' if copy else ''}", HALF)(
            fused(t, h, v, preference={"max_workspace": mib * MIB + copy}, beside=mib == 1024, floor=True, judged=mib != 512))
case("loss", "fused 16384x768x50304", HALF)(fused(16384, 768, 50304, floor=True))
case("loss", "fused 1048576x128x1000", HALF)(fused(1 << 20, 128, 1000, floor=True))
case("loss", "fused 4096x16384x32000", HALF)(fused(4096, 16384, 32000, floor=True))
for share in (0.5, 0.75, 0.9):
    case("loss", f"fused 16384x4096x128256, {share} of the rows ignored", HALF)(fused(16384, 4096, 128256, judged=False, beside=False, ignored=share))
OPTIONS = {"": {}, " label_smoothing": dict(label_smoothing=0.1), " z_loss": dict(z_loss=1e-4), " softcap": dict(softcap=30.0), " bias": dict(options=("bias",)),
           " weights": dict(options=("weights",)), " sum": dict(reduction="sum"), " none": dict(reduction="none"), " none, dloss": dict(reduction="none", options=("dloss",))}
for name, option in OPTIONS.items():
    case("loss", f"fused 8192x4096x128256{name or ', no option'}", HALF)(fused(8192, 4096, 128256, judged=False, beside=False, **option))
case("loss", "fused 8192x4096x128256, the loss alone", HALF)(fused(8192, 4096, 128256, judged=False, beside=False, evaluation=True))
case("loss", "fused 4096x1024x32000", (torch.float32, torch.float64))(fused(4096, 1024, 32000, beside=False))
case("loss", "fused 4096x1024x32000, of the sum", (torch.float16,))(fused(4096, 1024, 32000, beside=False, judged=False, reduction="sum"))
case("loss", "fused 4096x1024x32000 tf32", (torch.float32,))(fused(4096, 1024, 32000, preference={"allow_tf32": True}, beside=False, tolerance=2.0 ** -9))
