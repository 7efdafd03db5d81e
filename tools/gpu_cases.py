"""What the files of cases for gpu_bench.py share.

A case gives: op, fields, args, out {name: reference in f64}, bytes that the formula must move (or flops), torch's function for the
same work or None, others {name: function} timed too, eager where these cannot be captured; tolerance, the relative error in the 2-norm that is allowed, by default two roundings of the dtype; preference of the plan; other_bits where those of a
run may differ from the last one's."""
import torch

DEVICE = torch.device("cuda:0")
CASES = []


def case(family, name, dtypes):
    def add(f):
        for dtype in dtypes:
            CASES.append((family, name, dtype, f))
        return f
    return add


HALVES_AND_F32 = (torch.bfloat16, torch.float16, torch.float32)
ALL = HALVES_AND_F32 + (torch.float64,)


def normal(*shape, dtype, scale=1.0):
    return (torch.randn(*shape, device=DEVICE, dtype=torch.float32) * scale).to(dtype)
