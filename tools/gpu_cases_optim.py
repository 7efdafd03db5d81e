import torch

from gpu_cases import DEVICE, case, normal


def shapes_of():
    """The tensors of a GPT-2 of 124 M parameters."""
    shapes = [(50257, 768), (1024, 768)]
    for _ in range(12):
        shapes += [(768,), (768,), (2304, 768), (2304,), (768, 768), (768,), (768,), (768,), (3072, 768), (3072,), (768, 3072), (768,)]
    return shapes + [(768,), (768,)]


def stretch(shapes, dtype, scale):
    """Tensors that lie one behind the other, and the memory."""
    sizes = [(torch.Size(s).numel() + 63) // 64 * 64 for s in shapes]
    memory = normal(sum(sizes), dtype=dtype, scale=scale)
    return [m[:torch.Size(s).numel()].view(s) for m, s in zip(memory.split(sizes), shapes)], memory


def adamw_case(grad_dtype, masters):
    def make(dtype):
        shapes = shapes_of()
        lr, beta1, beta2, eps, decay, step = 1e-3, 0.9, 0.95, 1e-8, 0.1, 3
        w, w_all = stretch(shapes, torch.float32, 1.0)
        p_all = w_all.to(dtype)
        sizes = [(torch.Size(s).numel() + 63) // 64 * 64 for s in shapes]
        p = [q[:torch.Size(s).numel()].view(s) for q, s in zip(p_all.split(sizes), shapes)]
        (g, g_all), (m, m_all), (v, v_all) = stretch(shapes, grad_dtype, 1.0), stretch(shapes, torch.float32, 0.1), stretch(shapes, torch.float32, 0.1)
        v_all.abs_()
        start = w_all if masters else p_all.float()
        first = p[0].numel()  # the largest tensor is compared
        g64, m64, v64, s64 = (t[:first].double() for t in (g_all, m_all, v_all, start))
        m64, v64 = beta1 * m64 + (1 - beta1) * g64, beta2 * v64 + (1 - beta2) * g64 * g64
        want = s64 * (1 - lr * decay) - lr / (1 - beta1 ** step) * m64 / (v64.sqrt() / (1 - beta2 ** step) ** 0.5 + eps)
        del g64, m64, v64, s64
        copies = [t.clone() for t in (p_all if not masters else w_all, m_all, v_all)]

        args = dict(params=p, grads=g, m=m, v=v, step=step, lr=lr, beta1=beta1, beta2=beta2, eps=eps, weight_decay=decay)
        if masters:
            args["masters"] = w

        def restore():
            (w_all if masters else p_all).copy_(copies[0])
            m_all.copy_(copies[1])
            v_all.copy_(copies[2])
        tp = [t.clone().requires_grad_() for t in (w if masters else p)]
        for t, gt in zip(tp, g):
            t.grad = gt.to(t.dtype)
        theirs = torch.optim.AdamW(tp, lr=lr, betas=(beta1, beta2), eps=eps, weight_decay=decay, fused=True, capturable=True)
        n = sum(t.numel() for t in p)
        each = (p_all.itemsize * (1 if masters else 2) + g_all.itemsize + 16 + (8 if masters else 0))
        written = dict(masters=w[0]) if masters else dict(params=p[0])
        return dict(op="adamw", fields=dict(dtype=dtype, grad_dtype=grad_dtype), args=args, out={k: want.view(shapes[0]) for k in written}, written=written,
                    restore=restore, bytes=n * each, torch=theirs.step, tolerance=1e-6 if masters or dtype == torch.float32 else 2.0 ** -8)
    return make


case("optim", "adamw 124M of 148 tensors, masters", (torch.bfloat16,))(adamw_case(torch.bfloat16, True))
case("optim", "adamw 124M of 148 tensors", (torch.bfloat16,))(adamw_case(torch.bfloat16, False))
case("optim", "adamw 124M of 148 tensors", (torch.float32,))(adamw_case(torch.float32, False))


def norm_case(dtype):
    x, memory = stretch(shapes_of(), dtype, 1.0)
    norm, found = torch.empty(1, device=DEVICE, dtype=torch.float64 if dtype == torch.float64 else torch.float32), torch.empty(1, device=DEVICE)
    want = sum(t.double().square().sum() for t in x).sqrt().view(1)
    return dict(op="global_norm", fields=dict(dtype=dtype), args=dict(x=x, norm=norm, found_inf=found), out=dict(norm=want, found_inf=torch.zeros(1, device=DEVICE)),
                bytes=sum(t.nbytes for t in x), torch=lambda: torch.nn.utils.get_total_norm(x), tolerance=2e-7)


case("optim", "global_norm 124M of 148 tensors", (torch.bfloat16, torch.float16, torch.float32, torch.float64))(norm_case)
