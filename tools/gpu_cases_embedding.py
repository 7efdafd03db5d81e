import torch

from gpu_cases import DEVICE, case, normal

TOKENS = 65536


def tokens_of(vocabulary, kind):
    """Uniform; or by Zipf's law, as words are: the first of 50000 makes 9 percent."""
    if kind == "uniform":
        return torch.randint(0, vocabulary, (TOKENS,), device=DEVICE)
    weight = 1 / torch.arange(1, vocabulary + 1, device=DEVICE, dtype=torch.float64)
    return torch.randperm(vocabulary, device=DEVICE)[torch.multinomial(weight, TOKENS, replacement=True)]


def forward_case(vocabulary, width, kind):
    def make(dtype):
        weight, ids = normal(vocabulary, width, dtype=dtype), tokens_of(vocabulary, kind)
        y = torch.empty(TOKENS, width, dtype=dtype, device=DEVICE)
        return dict(op="embedding", fields=dict(dtype=dtype, vocabulary=vocabulary, width=width, indices=(TOKENS,)), args=dict(indices=ids, weight=weight, y=y),
                    out=dict(y=weight[ids].double()), bytes=y.nbytes + ids.unique().numel() * width * dtype.itemsize + ids.nbytes, tolerance=0.0,
                    torch=lambda: torch.nn.functional.embedding(ids, weight))
    return make


def backward_case(vocabulary, width, kind):
    def make(dtype):
        ids, dy = tokens_of(vocabulary, kind), normal(TOKENS, width, dtype=dtype)
        dweight = torch.empty(vocabulary, width, dtype=dtype, device=DEVICE)
        want = torch.zeros(vocabulary, width, dtype=torch.float64, device=DEVICE).index_add_(0, ids, dy.double())
        return dict(op="embedding_backward", fields=dict(dtype=dtype, vocabulary=vocabulary, width=width, indices=(TOKENS,)),
                    args=dict(dy=dy, indices=ids, dweight=dweight), out=dict(dweight=want), bytes=dy.nbytes + dweight.nbytes + ids.nbytes,
                    torch=lambda: torch.ops.aten.embedding_dense_backward(dy, ids, vocabulary, -1, False), repeats=20 if width > 1000 else 100)
    return make


for _vocabulary, _width in ((50304, 768), (32000, 4096)):
    for _kind in ("uniform", "zipf"):
        if _kind == "uniform":
            case("embedding", f"embedding {_vocabulary}x{_width}", (torch.bfloat16, torch.float32))(forward_case(_vocabulary, _width, _kind))
        case("embedding", f"embedding_backward {_vocabulary}x{_width} {_kind}", (torch.bfloat16, torch.float32))(backward_case(_vocabulary, _width, _kind))
