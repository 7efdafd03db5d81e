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
