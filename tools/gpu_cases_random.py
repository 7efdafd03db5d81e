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


def words_case(op, check):
    """Ops that keep or drop, of ones where there is an input, and integers."""
    def make(dtype):
        n = 1 << 27
        y = torch.empty(n, dtype=dtype, device=DEVICE)
        x, out = torch.ones_like(y), torch.empty_like(y)
        args = dict(y=y, seed=42, offset=0)
        if op == "dropout":
            args["x"] = x
        theirs = {"dropout": lambda: torch.nn.functional.dropout(x, 0.5), "bernoulli": lambda: out.bernoulli_(0.5), "randint": lambda: out.random_(0, 2)}[op]
        return dict(op=op, fields=dict(dtype=dtype, shape=(n,)), args=args, out={}, moments=check, bytes=y.nbytes * (2 if op == "dropout" else 1), torch=theirs,
                    restore=lambda: y.fill_(100))
    return make


case("random", "dropout", (torch.bfloat16, torch.float32))(words_case("dropout", (1.0, 1.0)))
case("random", "bernoulli", (torch.bool, torch.bfloat16))(words_case("bernoulli", (0.5, 0.25)))
case("random", "randint", (torch.int32, torch.int64))(words_case("randint", (0.5, 0.25)))


def stochastic_case(to):
    """Of numbers between two neighbours, one of which holds: mean and variance are those of the two values that come."""
    def make(dtype):
        n = 1 << 26
        x = torch.full((n,), 1 + (2.0 ** -9 if to == torch.bfloat16 else 2.0 ** -5), dtype=dtype, device=DEVICE)
        y = torch.empty(n, dtype=to, device=DEVICE)
        gap = {torch.bfloat16: 2.0 ** -7, torch.float8_e4m3fn: 0.125, torch.float8_e5m2: 0.25}[to]
        p = (x[0].item() - 1) / gap
        return dict(op="cast_stochastic", fields=dict(dtype=dtype, to=to, shape=(n,)), args=dict(x=x, y=y, seed=42, offset=0), out={}, moments=(1 + p * gap, p * (1 - p) * gap ** 2),
                    tolerance=1e-4, bytes=x.nbytes + y.nbytes, torch=None, restore=lambda: y.view(torch.uint8).fill_(0))
    return make


case("random", "cast_stochastic to bf16", (torch.float32,))(stochastic_case(torch.bfloat16))
case("random", "cast_stochastic to f8_e4m3fn", (torch.bfloat16, torch.float32))(stochastic_case(torch.float8_e4m3fn))
case("random", "cast_stochastic to f8_e5m2", (torch.float32,))(stochastic_case(torch.float8_e5m2))


def filter_case(rows, n, cuts):
    """Probabilities cut to the likeliest; torch sorts for top_p, and takes its topk for top_k alone."""
    def make(dtype):
        x = torch.softmax(torch.randn(rows, n, device=DEVICE) * 3, -1).to(dtype)
        y = torch.empty_like(x)
        k, p = cuts.get("top_k", n), cuts.get("top_p", 1.0)

        def kept(x):
            values, order = x.topk(k) if p == 1 else x.sort(dim=-1, descending=True, stable=True)
            if p < 1:
                values = values[:, :k]
                sums = values.cumsum(-1)
                values = values.masked_fill(sums - values >= p * sums[:, -1:], 0)
            return torch.zeros_like(x).scatter_(-1, order[:, :k], values / values.sum(-1, keepdim=True))
        wide = x.double()
        values, order = wide.sort(dim=-1, descending=True, stable=True)
        values[:, k:] = 0
        if p < 1:
            sums = values.cumsum(-1)
            values = values.masked_fill(sums - values >= p * sums[:, -1:], 0)
        want = torch.zeros_like(wide).scatter_(-1, order, values / values.sum(-1, keepdim=True))
        return dict(op="sampling_filter", fields=dict(dtype=dtype, shape=(rows, n), kind="probabilities", **cuts), args=dict(x=x, y=y), out=dict(y=want), bytes=x.nbytes + y.nbytes,
                    torch=lambda: kept(x), repeats=10)
    return make


def categorical_case(rows, n, cuts):
    """Equal logits, whose indices are even over a row, or over the first top_k of it."""
    def make(dtype):
        x = torch.zeros(rows, n, dtype=dtype, device=DEVICE)
        y = torch.empty(rows, 1, dtype=torch.int64, device=DEVICE)
        probabilities = torch.softmax(x.float(), -1)
        k = cuts.get("top_k", n)
        return dict(op="categorical", fields=dict(dtype=dtype, shape=(rows, n), **cuts), args=dict(x=x, y=y, seed=5, offset=0), out={}, moments=((k - 1) / 2, (k * k - 1) / 12),
                    tolerance=k * k / 8, bytes=x.nbytes, torch=lambda: probabilities.multinomial(1), restore=lambda: y.fill_(-7), repeats=10)
    return make


for _rows in (1, 64, 512):
    _label = f"{_rows}x131072"
    for _name, _cuts in (("top_k 50", dict(top_k=50)), ("top_p 0.9", dict(top_p=0.9)), ("top_k 50 top_p 0.9", dict(top_k=50, top_p=0.9))):
        case("random", f"sampling_filter {_name} {_label}", (torch.float32, torch.bfloat16))(filter_case(_rows, 131072, _cuts))
    case("random", f"categorical {_label}", (torch.float32,))(categorical_case(_rows, 131072, {}))
    case("random", f"categorical top_k 50 {_label}", (torch.float32,))(categorical_case(_rows, 131072, dict(top_k=50)))
