import torch

from gpu_cases import DEVICE, case, normal


def gather_case(axis):
    def make(dtype):
        x, ids = normal(8192, 8192, dtype=dtype), torch.randint(0, 8192, (8192, 8192), device=DEVICE, dtype=torch.int32)
        y, wide = torch.empty_like(x), ids.long()
        return dict(op="gather", fields=dict(dtype=dtype, shape=tuple(x.shape), axis=axis, indices=tuple(ids.shape), index_dtype=torch.int32, out_of_range="fill"),
                    args=dict(x=x, indices=ids, y=y), out=dict(y=x.gather(axis, wide).double()), bytes=x.nbytes + y.nbytes + ids.nbytes, tolerance=0.0,
                    torch=lambda: torch.gather(x, axis, wide))
    return make


def select_case(width):
    def make(dtype):
        n = (1 << 26) // width
        x, ids = normal(n, width, dtype=dtype), torch.randperm(n, device=DEVICE)
        y = torch.empty_like(x)
        return dict(op="index", fields=dict(dtype=dtype, shape=(n, width), axes=(0,), indices=(n,), out_of_range="fill"), args=dict(x=x, indices=[ids], y=y),
                    out=dict(y=x[ids].double()), bytes=2 * x.nbytes + ids.nbytes, tolerance=0.0, torch=lambda: torch.index_select(x, 0, ids))
    return make


def one_hot_case(classes):
    def make(dtype):
        ids = torch.randint(0, classes, (16384,), device=DEVICE)
        y = torch.empty(16384, classes, dtype=dtype, device=DEVICE)
        want = torch.nn.functional.one_hot(ids, classes)
        return dict(op="one_hot", fields=dict(dtype=dtype, shape=(16384,), classes=classes, out_of_range="fill"), args=dict(indices=ids, y=y), out=dict(y=want.double()),
                    bytes=y.nbytes, tolerance=0.0, restore=lambda: y.fill_(9), torch=(lambda: torch.zeros(16384, classes, dtype=dtype, device=DEVICE).scatter_(1, ids[:, None], 1)))
    return make


case("index", "gather 8192x8192 along the rows", (torch.bfloat16, torch.float32))(gather_case(1))
case("index", "gather 8192x8192 along the columns", (torch.float32,))(gather_case(0))
for _width in (1024, 64):
    case("index", f"index of all rows of {_width}", (torch.bfloat16, torch.float32))(select_case(_width))
case("index", "one_hot 16384x4096", (torch.int64, torch.bfloat16))(one_hot_case(4096))
