"""Against NumPy and SciPy on drawn shapes, strides and axes, and what must hold whatever the values: a scan of joined parts,
any order of the elements of a sum, linear maps, two reversals, an op and its inverse. The draws are the same every time."""
import numpy as np
import pytest
import scipy.special
from baracuda import ops
from hypothesis import given, settings
from hypothesis import strategies as st

settings.register_profile("same", derandomize=True, deadline=None, max_examples=60, database=None)
settings.load_profile("same")

FLOATS = (np.float32, np.float64)
EPS = {np.float32: 2.0 ** -23, np.float64: 2.0 ** -52, np.float16: 2.0 ** -10}


@st.composite
def arrays(draw, dtypes=FLOATS, min_rank=0, max_rank=5, most=7, empty=True, shape=None):
    """Values from a normal, small integers for integers, under drawn strides: permuted axes, steps, reversals, broadcast axes."""
    dtype = draw(st.sampled_from(dtypes))
    shape = draw(st.lists(st.integers(0 if empty else 1, most), min_size=min_rank, max_size=max_rank)) if shape is None else shape
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    order = draw(st.permutations(range(len(shape))))
    steps = [draw(st.sampled_from((1, 1, 2, -1, -2, 0))) for _ in shape]
    big = [abs(s) * n or 1 for s, n in zip(steps, shape)]
    memory = rng.standard_normal([big[i] for i in order]) if np.dtype(dtype).kind == "f" else rng.integers(-9 if np.dtype(dtype).kind == "i" else 0, 10, [big[i] for i in order])
    x = memory.astype(dtype).transpose(np.argsort(order))
    for axis, (step, n) in enumerate(zip(steps, shape)):
        x = x[(slice(None),) * axis + (slice(None, None, step or 1),)]
        if step == 0:
            x = np.broadcast_to(x, x.shape[:axis] + (n,) + x.shape[axis + 1:])
    return x


def close(got, want, dtype, steps=1, scale=None):
    """Within `steps` roundings of dtype at the size of `scale` (of the result when none is given)."""
    want = np.asarray(want)
    scale = np.abs(want) if scale is None else scale
    assert got.shape == want.shape
    with np.errstate(invalid="ignore"):
        bad = ~(np.abs(got.astype(want.dtype) - want) <= steps * EPS[dtype] * scale + np.finfo(dtype).tiny) & ~(got == want) & ~(np.isnan(got) & np.isnan(want))
    assert not bad.any(), f"{got[bad][:4]} against {want[bad][:4]}"


UNARY = {"exp": np.exp, "exp2": np.exp2, "expm1": np.expm1, "log": np.log, "log1p": np.log1p, "log2": np.log2, "sqrt": np.sqrt, "cbrt": np.cbrt, "sin": np.sin, "cos": np.cos,
         "tan": np.tan, "asin": np.arcsin, "acos": np.arccos, "atan": np.arctan, "sinh": np.sinh, "cosh": np.cosh, "tanh": np.tanh, "asinh": np.arcsinh,
         "acosh": np.arccosh, "atanh": np.arctanh, "erf": scipy.special.erf, "erfc": scipy.special.erfc, "sigmoid": scipy.special.expit, "logit": scipy.special.logit,
         "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "round": np.rint, "sign": np.sign, "square": np.square, "reciprocal": np.reciprocal}


@pytest.mark.parametrize("name", UNARY)
@given(x=arrays())
@settings(max_examples=12)
def test_unary(name, x):
    with np.errstate(all="ignore"):
        want = UNARY[name](x.astype(np.float64) if x.dtype == np.float32 else x.astype(np.longdouble) if not name in ("erf", "erfc", "sigmoid", "logit") else x)
    close(getattr(ops, name)(x), want, x.dtype.type, 4)


BINARY = {"add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum, "minimum": np.minimum, "fmax": np.fmax, "fmin": np.fmin,
          "fmod": np.fmod, "remainder": np.remainder, "copysign": np.copysign, "nextafter": np.nextafter}


@pytest.mark.parametrize("name", BINARY)
@given(x=arrays(), data=st.data())
@settings(max_examples=12)
def test_binary_with_broadcasting(name, x, data):
    shape = [1 if data.draw(st.booleans()) else n for n in x.shape][data.draw(st.integers(0, 2)):]
    y = data.draw(arrays((x.dtype.type,), shape=shape))
    with np.errstate(all="ignore"):
        want = BINARY[name](x, y)
    np.testing.assert_array_equal(getattr(ops, name)(x, y), want)


INTEGERS = (np.int8, np.uint8, np.int16, np.int32, np.int64)


@given(x=arrays(INTEGERS), y=st.integers(1, 9))
def test_integers_are_exact(x, y):
    y = np.asarray(y, x.dtype)
    for name, numpy in {"add": np.add, "sub": np.subtract, "mul": np.multiply, "floor_divide": np.floor_divide, "remainder": np.remainder, "fmod": np.fmod,
                        "bitwise_and": np.bitwise_and, "bitwise_xor": np.bitwise_xor, "gcd": np.gcd, "maximum": np.maximum, "lt": np.less, "eq": np.equal}.items():
        np.testing.assert_array_equal(getattr(ops, name)(x, y), numpy(x, y), err_msg=name)
    if x.ndim:
        np.testing.assert_array_equal(ops.cumsum(x, axis=-1), np.cumsum(x, -1, dtype=np.int64))


def drawn_axes(data, x):
    return sorted(data.draw(st.sets(st.integers(0, x.ndim - 1), min_size=1)))


REDUCE = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min, "prod": np.prod, "norm2": lambda x, axis, keepdims: np.sqrt(np.sum(x * x, axis, keepdims=keepdims)),
          "logsumexp": lambda x, axis, keepdims: scipy.special.logsumexp(x, axis, keepdims=keepdims)}


@pytest.mark.parametrize("name", REDUCE)
@given(x=arrays(min_rank=1, empty=False), data=st.data())
@settings(max_examples=25)
def test_reduce(name, x, data):
    axes, keepdim = drawn_axes(data, x), data.draw(st.booleans())
    signed = [a - x.ndim if data.draw(st.booleans()) else a for a in axes]
    wide = x.astype(np.float64 if x.dtype == np.float32 else np.longdouble)
    want = REDUCE[name](wide, axis=tuple(axes), keepdims=keepdim)
    scale = np.sum(np.abs(wide), axis=tuple(axes), keepdims=keepdim) + 1 if name in ("sum", "mean") else np.abs(want) + 1 if name == "logsumexp" else None
    n = int(np.prod([x.shape[a] for a in axes]))
    got = getattr(ops, name)(x, axes=signed, keepdim=keepdim)
    close(np.asarray(got), want, x.dtype.type, 4 if name != "prod" else 2 + n, scale)
    np.testing.assert_array_equal(ops.any(x != 0, axes=signed, keepdim=keepdim), np.any(x != 0, axis=tuple(axes), keepdims=keepdim))


@given(x=arrays(min_rank=1, empty=False), correction=st.integers(0, 2), data=st.data())
def test_var_is_numpys(x, correction, data):
    axes = drawn_axes(data, x)
    with np.errstate(all="ignore"):
        wide = x.astype(np.float64 if x.dtype == np.float32 else np.longdouble)
        n = int(np.prod([x.shape[a] for a in axes]))
        want = np.sum((wide - wide.mean(tuple(axes), keepdims=True)) ** 2, tuple(axes)) / max(n - correction, 0)
    close(np.asarray(ops.var(x, axes=axes, correction=correction)), want, x.dtype.type, 8)


@given(x=arrays(min_rank=1, empty=False), data=st.data())
def test_arg_extrema_are_the_first(x, data):
    x, axis = np.round(x), data.draw(st.integers(-x.ndim, x.ndim - 1))  # ties
    np.testing.assert_array_equal(ops.argmax(x, axis=axis), np.argmax(x, axis))
    np.testing.assert_array_equal(ops.argmin(x, axis=axis), np.argmin(x, axis))


# ---- scans
SCANS = ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp")


@pytest.mark.parametrize("name", SCANS)
@given(x=arrays(min_rank=1), data=st.data())
@settings(max_examples=25)
def test_scan(name, x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    wide = x.astype(np.float64 if x.dtype == np.float32 else np.longdouble)
    ufunc = {"cumsum": np.add, "cumprod": np.multiply, "cummax": np.maximum, "cummin": np.minimum, "logcumsumexp": np.logaddexp}[name]
    want = ufunc.accumulate(wide, axis)
    scale = np.add.accumulate(np.abs(wide), axis) + 1 if name in ("cumsum", "logcumsumexp") else None
    close(getattr(ops, name)(x, axis=axis), want, x.dtype.type, 4 + x.shape[axis], scale)
    # From the other end it is the scan of the reversed input, bit for bit.
    np.testing.assert_array_equal(getattr(ops, name)(x, axis=axis, reverse=True), np.flip(getattr(ops, name)(np.flip(x, axis), axis=axis), axis))


@given(x=arrays(min_rank=1, most=40, max_rank=3, empty=False), data=st.data())
def test_scan_of_joined_parts(x, data):
    """The running maximum of a whole is that of its parts, joined by the maximum of what came before."""
    axis = data.draw(st.integers(0, x.ndim - 1))
    cut = data.draw(st.integers(0, x.shape[axis]))
    first, second = np.split(x, [cut], axis)
    whole = ops.cummax(x, axis=axis)
    head = ops.cummax(first, axis=axis)
    tail = ops.cummax(second, axis=axis)
    if cut:
        tail = np.maximum(tail, np.take(head, [cut - 1], axis))
    np.testing.assert_array_equal(whole, ops.concat([head, tail], axis=axis))


@given(x=arrays((np.float64,), 1, 3, 40, empty=False), a=st.integers(-3, 3), data=st.data())
def test_linear_maps(x, a, data):
    """Powers of two scale exactly, whatever the order of the sums."""
    axis = data.draw(st.integers(0, x.ndim - 1))
    for f in (lambda v: ops.sum(v, axes=[axis]), lambda v: ops.cumsum(v, axis=axis), lambda v: ops.flip(v, axes=[axis]), lambda v: ops.mean(v, axes=[axis])):
        np.testing.assert_array_equal(f(x * 2.0 ** a), f(x) * 2.0 ** a)


@given(x=arrays((np.int32,), 1, 3, 40, empty=False), data=st.data())
def test_order_does_not_matter_to_integers(x, data):
    axis = data.draw(st.integers(0, x.ndim - 1))
    shuffled = np.take(x, data.draw(st.permutations(range(x.shape[axis]))), axis)
    for name in ("sum", "max", "min", "prod"):
        np.testing.assert_array_equal(getattr(ops, name)(x, axes=[axis]), getattr(ops, name)(shuffled, axes=[axis]))


# ---- softmax
@given(x=arrays(min_rank=1, empty=False), data=st.data())
def test_softmax(x, data):
    axis = data.draw(st.integers(-x.ndim, x.ndim - 1))
    wide = x.astype(np.float64 if x.dtype == np.float32 else np.longdouble)
    e = np.exp(wide - wide.max(axis, keepdims=True))
    want = e / e.sum(axis, keepdims=True)
    close(ops.softmax(x, axis=axis), want, x.dtype.type, 8)
    close(ops.log_softmax(x, axis=axis), np.log(want), x.dtype.type, 8, 1 + np.abs(np.log(want)))


# ---- movements: exact, and undone
@given(x=arrays((np.float32, np.int64, np.int8, np.bool_), min_rank=1), data=st.data())
def test_movements(x, data):
    axes = drawn_axes(data, x)
    np.testing.assert_array_equal(ops.flip(x, axes=axes), np.flip(x, axes))
    np.testing.assert_array_equal(ops.flip(ops.flip(x, axes=axes), axes=axes), x)
    shifts = [data.draw(st.integers(-9, 9)) for _ in axes]
    rolled = ops.roll(x, shifts=shifts, axes=axes)
    np.testing.assert_array_equal(rolled, np.roll(x, shifts, axes))
    np.testing.assert_array_equal(ops.roll(rolled, shifts=[-s for s in shifts], axes=axes), x)
    order = list(data.draw(st.permutations(range(x.ndim))))
    moved = ops.permute(x, axes=order)
    np.testing.assert_array_equal(moved, x.transpose(order))
    np.testing.assert_array_equal(ops.permute(moved, axes=[int(i) for i in np.argsort(order)]), x)
    repeats = [data.draw(st.integers(0, 3)) for _ in x.shape]
    np.testing.assert_array_equal(ops.repeat(x, repeats=repeats), np.tile(x, repeats))
    parts = [x] * data.draw(st.integers(1, 3))
    np.testing.assert_array_equal(ops.concat(parts, axis=axes[0]), np.concatenate(parts, axes[0]))


@given(x=arrays(min_rank=1, max_rank=4, empty=False), data=st.data())
def test_pad(x, data):
    for mode, numpy in {"constant": "constant", "reflect": "reflect", "replicate": "edge", "circular": "wrap"}.items():
        most = [n - 1 if mode == "reflect" else n if mode == "circular" else 4 for n in x.shape]
        lo, hi = ([data.draw(st.integers(0, m)) for m in most] for _ in range(2))
        np.testing.assert_array_equal(ops.pad(x, mode=mode, lo=lo, hi=hi), np.pad(x, list(zip(lo, hi)), numpy), err_msg=mode)


@given(x=arrays((np.float32,), min_rank=1, empty=False))
def test_quantized_values_come_back(x):
    """What lies on the grid is not moved by another round trip."""
    scale = np.float32(max(float(np.abs(x).max()) / 127, 1e-6))
    q = ops.quantize(x, scale=scale, qdtype="i8")
    y = ops.dequantize(q, scale=scale, dtype="f32")
    assert np.abs(y - x).max() <= scale * 0.5000001 + 1e-12
    np.testing.assert_array_equal(ops.quantize(y, scale=scale, qdtype="i8"), q)


@given(x=arrays(min_rank=1, max_rank=3, empty=False), data=st.data())
def test_gradients_of_movements_are_their_transposes(x, data):
    """<A x, y> = <x, A^T y> for the linear maps: repeat, pad, cumsum, sum."""
    rng = np.random.default_rng(5)
    axis = data.draw(st.integers(0, x.ndim - 1))
    repeats = [data.draw(st.integers(1, 3)) for _ in x.shape]
    lo = [data.draw(st.integers(0, 2)) for _ in x.shape]
    maps = [(lambda v: ops.repeat(v, repeats=repeats), lambda d: ops.repeat_backward(d, shape=x.shape, repeats=repeats)),
            (lambda v: ops.pad(v, mode="replicate", lo=lo, hi=lo), lambda d: ops.pad_backward(d, shape=x.shape, mode="replicate", lo=lo, hi=lo)),
            (lambda v: ops.cumsum(v, axis=axis), lambda d: ops.cumsum_backward(d, axis=axis)),
            (lambda v: ops.sum(v, axes=[axis]), lambda d: ops.sum_backward(d, shape=x.shape, axes=[axis]))]
    for forward, back in maps:
        y = forward(x)
        dy = rng.standard_normal(y.shape).astype(x.dtype)
        dx = back(dy)
        left, right = float(np.vdot(y.astype(np.float64), dy)), float(np.vdot(x.astype(np.float64), dx))
        size = float(np.vdot(np.abs(y).astype(np.float64), np.abs(dy))) + float(np.vdot(np.abs(x).astype(np.float64), np.abs(dx)))
        assert abs(left - right) <= 64 * EPS[x.dtype.type] * size + 1e-30
