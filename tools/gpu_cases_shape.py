import torch

from gpu_cases import DEVICE, case, normal

N = (16384, 8192)
TYPES = (torch.bfloat16, torch.float32)
HALF = (torch.bfloat16,)


def moved(name, op, fields, make, types=TYPES, shape=N):
    """y = make(x), which moves elements; the reference is torch's own, bit for bit."""
    @case("shape", name, types)
    def of(dtype):
        x = normal(*shape, dtype=dtype)
        want = make(x)
        y = torch.empty(want.shape, dtype=dtype, device=DEVICE)
        return dict(op=op, fields=dict(dtype=dtype, shape=shape, **fields), args=dict(x=x, y=y), out=dict(y=want), bytes=x.nbytes + y.nbytes, torch=lambda: make(x), tolerance=0.0)


pad = torch.nn.functional.pad
moved("flip 1", "flip", dict(axes=(1,)), lambda x: x.flip(1))
moved("flip 0", "flip", dict(axes=(0,)), lambda x: x.flip(0), types=HALF)
moved("flip 1, odd", "flip", dict(axes=(1,)), lambda x: x.flip(1), shape=(16383, 8191), types=HALF)
moved("roll 1", "roll", dict(shifts=(1001,), axes=(1,)), lambda x: x.roll(1001, 1))
moved("roll 0", "roll", dict(shifts=(1001,), axes=(0,)), lambda x: x.roll(1001, 0))
moved("roll flat", "roll", dict(shifts=(1001,)), lambda x: x.roll(1001), types=HALF)
moved("pad constant 1 1", "pad", dict(lo=(0, 1), hi=(0, 1)), lambda x: pad(x, (1, 1)))
moved("pad constant 64 64", "pad", dict(lo=(0, 64), hi=(0, 64)), lambda x: pad(x, (64, 64)), types=HALF)
moved("pad reflect 3", "pad", dict(mode="reflect", lo=(0, 3, 3), hi=(0, 3, 3)), lambda x: pad(x, (3, 3, 3, 3), mode="reflect"), shape=(2048, 256, 256), types=HALF)
moved("pad circular 3", "pad", dict(mode="circular", lo=(0, 3), hi=(0, 3)), lambda x: pad(x[None], (3, 3), mode="circular")[0], HALF)
moved("repeat 2 x 2", "repeat", dict(repeats=(2, 2)), lambda x: x.repeat(2, 2), shape=(8192, 8192), types=HALF)
moved("repeat_interleave heads", "repeat_interleave", dict(repeats=4, axis=1), lambda x: x.repeat_interleave(4, 1), shape=(16, 8, 2048, 128), types=HALF)
moved("repeat_interleave last", "repeat_interleave", dict(repeats=2, axis=1), lambda x: x.repeat_interleave(2, 1), shape=(8192, 8192), types=HALF)
moved("permute 1 0", "permute", dict(axes=(1, 0)), lambda x: x.t().contiguous())
moved("permute 0 2 1 3", "permute", dict(axes=(0, 2, 1, 3)), lambda x: x.transpose(1, 2).contiguous(), shape=(16, 2048, 32, 128), types=HALF)
moved("slice", "slice", dict(start=(0, 8), size=(16384, 8176)), lambda x: x[:, 8:8184].clone())
moved("slice, odd", "slice", dict(start=(0, 1), size=(16384, 8190)), lambda x: x[:, 1:8191].clone(), types=HALF)
moved("triangle lower", "triangle", dict(kind="lower"), lambda x: x.tril(), shape=(8192, 8192), types=HALF)


@case("shape", "concat 0", TYPES)
def concat_rows(dtype):
    return concat(dtype, 0)


@case("shape", "concat 1", TYPES)
def concat_columns(dtype):
    return concat(dtype, 1)


@case("shape", "concat of 64", HALF)
def concat_many(dtype):
    return concat(dtype, 1, [128] * 64)


def concat(dtype, axis, widths=(2048, 4096, 1024, 1024)):
    x = [normal(*((16384, w) if axis else (w, 16384)), dtype=dtype) for w in widths]
    want = torch.cat(x, axis)
    y = torch.empty_like(want)
    return dict(op="concat", fields=dict(dtype=dtype, shape=tuple(want.shape), axis=axis), args=dict(x=x, y=y), out=dict(y=want), bytes=2 * y.nbytes,
                torch=lambda: torch.cat(x, axis), tolerance=0.0)


@case("shape", "split 1", HALF)
def split(dtype):
    x = normal(*N, dtype=dtype)
    parts = [torch.empty(16384, w, dtype=dtype, device=DEVICE) for w in (2048, 4096, 2048)]
    return dict(op="split", fields=dict(dtype=dtype, shape=N, axis=1), args=dict(x=x, y=parts), written={str(i): p for i, p in enumerate(parts)},
                out={str(i): p for i, p in enumerate(x.split((2048, 4096, 2048), 1))}, bytes=2 * x.nbytes,
                torch=lambda: [p.contiguous() for p in x.split((2048, 4096, 2048), 1)], tolerance=0.0)


@case("shape", "pad_backward constant 1 1", HALF)
def pad_backward(dtype):
    dy = normal(16384, 8194, dtype=dtype)
    dx = torch.empty(N, dtype=dtype, device=DEVICE)
    return dict(op="pad_backward", fields=dict(dtype=dtype, shape=N, lo=(0, 1), hi=(0, 1)), args=dict(dy=dy, dx=dx), out=dict(dx=dy[:, 1:-1]), bytes=2 * dx.nbytes,
                torch=lambda: dy[:, 1:-1].clone(), tolerance=0.0)


@case("shape", "pad_backward reflect 3", HALF)
def pad_backward_reflect(dtype):
    n = (2048, 256, 256)
    x = torch.zeros(n, dtype=torch.float64, device=DEVICE, requires_grad=True)
    dy = normal(2048, 262, 262, dtype=dtype)
    pad(x, (3, 3, 3, 3), mode="reflect").backward(dy.double())
    dx = torch.empty(n, dtype=dtype, device=DEVICE)
    return dict(op="pad_backward", fields=dict(dtype=dtype, shape=n, mode="reflect", lo=(0, 3, 3), hi=(0, 3, 3)), args=dict(dy=dy, dx=dx), out=dict(dx=x.grad),
                bytes=dy.nbytes + dx.nbytes, torch=None)


@case("shape", "repeat_interleave_backward heads", HALF)
def interleave_backward(dtype):
    dy = normal(16, 32, 2048, 128, dtype=dtype)
    dx = torch.empty(16, 8, 2048, 128, dtype=dtype, device=DEVICE)
    return dict(op="repeat_interleave_backward", fields=dict(dtype=dtype, shape=tuple(dx.shape), repeats=4, axis=1), args=dict(dy=dy, dx=dx),
                out=dict(dx=dy.double().view(16, 8, 4, 2048, 128).sum(2)), bytes=dy.nbytes + dx.nbytes, torch=lambda: dy.view(16, 8, 4, 2048, 128).sum(2))


@case("shape", "repeat_backward rows", HALF)
def repeat_backward(dtype):
    dy = normal(*N, dtype=dtype)
    dx = torch.empty(1, 8192, dtype=dtype, device=DEVICE)
    return dict(op="repeat_backward", fields=dict(dtype=dtype, shape=(1, 8192), repeats=(16384, 1)), args=dict(dy=dy, dx=dx), out=dict(dx=dy.double().sum(0, keepdim=True)),
                bytes=dy.nbytes, torch=lambda: dy.sum(0, keepdim=True))


@case("shape", "dynamic_update_slice in place", HALF)
def dynamic_update(dtype):
    whole = torch.zeros(16, 8192, 8, 128, dtype=dtype, device=DEVICE)
    update, start = normal(16, 4096, 8, 128, dtype=dtype), torch.tensor([0, 1000, 0, 0], device=DEVICE)
    want = whole.clone()
    want[:, 1000:5096] = update
    return dict(op="dynamic_update_slice", fields=dict(dtype=dtype, shape=tuple(whole.shape), size=tuple(update.shape)), args=dict(x=whole, update=update, start=start, y=whole),
                out=dict(y=want), restore=lambda: whole.zero_(), bytes=2 * update.nbytes, torch=lambda: whole[:, 1000:5096].copy_(update), tolerance=0.0)


@case("shape", "select_n of 3", HALF)
def select(dtype):
    x = [normal(*N, dtype=dtype) for _ in range(3)]
    which = torch.randint(0, 3, N, dtype=torch.int32, device=DEVICE)
    y = torch.empty_like(x[0])
    return dict(op="select_n", fields=dict(dtype=dtype, which_dtype=torch.int32, shape=N, which=N), args=dict(which=which, x=x, y=y),
                out=dict(y=torch.where(which == 0, x[0], torch.where(which == 1, x[1], x[2]))), bytes=which.nbytes + 4 * y.nbytes,
                torch=lambda: torch.where(which == 0, x[0], torch.where(which == 1, x[1], x[2])), tolerance=0.0)
