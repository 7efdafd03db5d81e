"""Tensors of other libraries: in and out without copies, refusals in the library's words."""
import threading
import time

import baracuda
import numpy as np
import pytest
from baracuda import ops

jax = pytest.importorskip("jax")
ml_dtypes = pytest.importorskip("ml_dtypes")
import jax.numpy as jnp  # noqa: E402


def grid(*shape, dtype=np.float32):
    n = int(np.prod(shape))
    return np.sin(np.arange(n, dtype=np.float64) * 0.7).reshape(shape).astype(dtype)


def test_version_is_that_of_the_project():
    import os
    import re
    text = open(os.path.join(os.path.dirname(__file__), "..", "..", "CMakeLists.txt"), encoding="utf-8").read()
    assert baracuda.__version__ == re.search(r"project\(baracuda VERSION ([0-9.]+)", text)[1]


def test_plan_writes_where_the_array_lies():
    p = baracuda.Plan("gated", kind="reglu", shape=(2, 3), dtype="f32")
    y = np.zeros((2, 6), np.float32)[:, ::2]  # strided output: every second column
    gate, up = grid(2, 3), grid(2, 3)[::-1]  # and a negative stride
    p.run(gate=gate, up=up, y=y)
    np.testing.assert_array_equal(y, np.maximum(gate, 0) * up)
    assert p.kernel == "gated.cpu.map" and p.deterministic and p.batch_invariant and p.workspace_size == 0
    assert p.descriptor == "kind=reglu dtype=f32 shape=[2, 3] alpha=none limit=none"
    assert [(a.name, a.presence, a.dtype, a.shape) for a in p.arguments] == [(n, "required", "f32", (2, 3)) for n in ("gate", "up", "y")]


def test_read_only_inputs_are_read_and_read_only_outputs_are_refused():
    x = grid(4)
    x.flags.writeable = False
    np.testing.assert_array_equal(ops.relu(x), np.maximum(x, 0))
    with pytest.raises(baracuda.InvalidProblem, match="unary: y takes a writable tensor"):
        ops.relu(grid(4), y=x)
    with pytest.raises(TypeError, match="jax array cannot be written"):
        ops.relu(grid(4), y=jnp.zeros(4))


def test_broadcast_views_are_inputs():
    row = np.broadcast_to(grid(3), (4, 3))  # stride 0
    np.testing.assert_array_equal(ops.square(row), row * row)


def test_given_output_is_returned():
    x, y = grid(5), np.zeros(5, np.float32)
    assert ops.abs(x, y=y) is y
    np.testing.assert_array_equal(y, np.abs(x))


def test_bf16_of_numpy():
    x = grid(3, 5).astype(ml_dtypes.bfloat16)
    y = ops.neg(x)
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y.astype(np.float32), -x.astype(np.float32))
    out = np.zeros((3, 5), ml_dtypes.bfloat16)
    assert ops.neg(x, y=out) is out
    np.testing.assert_array_equal(out, y)


FLOAT8 = ["float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz"]


@pytest.mark.parametrize("word", FLOAT8)
@pytest.mark.parametrize("source", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64])
def test_casts_to_float8_are_those_of_ml_dtypes(word, source):
    if source == np.float32 or source == np.float64:
        x = (np.arange(0, 1 << 32, 65521, dtype=np.uint64).astype(np.uint32)).view(np.float32).astype(source)
    else:
        x = np.arange(65536, dtype=np.uint16).view(source)
    dtype = np.dtype(getattr(ml_dtypes, word))
    with np.errstate(all="ignore"):
        want = x.astype(np.float32).astype(dtype)  # exact in float32, so that this rounds once
    y = ops.cast(x, to=dtype)
    assert y.dtype == dtype
    got, want = y.astype(np.float32), want.astype(np.float32)
    np.testing.assert_array_equal(got, want)
    np.testing.assert_array_equal(np.signbit(got)[~np.isnan(got)], np.signbit(want)[~np.isnan(want)])


@pytest.mark.parametrize("word", FLOAT8)
def test_float8_codes(word):
    dtype = np.dtype(getattr(ml_dtypes, word))
    x = np.arange(256, dtype=np.uint8).view(dtype)
    for to in (np.float32, np.float16, np.float64):
        np.testing.assert_array_equal(ops.cast(x, to=to), x.astype(to))
    np.testing.assert_array_equal(ops.copy(x.reshape(16, 16).T).view(np.uint8), x.view(np.uint8).reshape(16, 16).T)
    most = float(ml_dtypes.finfo(dtype).max)
    y = ops.cast(np.array([1e9, -np.inf, np.nan, 1], np.float32), to=dtype, saturate=True).astype(np.float32)
    np.testing.assert_array_equal(y, np.array([most, -most, np.nan, 1], np.float32))


@pytest.mark.parametrize("word", FLOAT8)
def test_float8_of_jax(word):
    dtype = getattr(jnp, word)
    x = jnp.asarray(grid(4, 6))
    y = ops.cast(x, to=dtype)
    assert isinstance(y, jax.Array) and y.dtype == dtype
    np.testing.assert_array_equal(np.asarray(y, np.float32), np.asarray(x.astype(dtype), np.float32))


def test_float8_of_torch():
    torch = pytest.importorskip("torch")
    x = torch.linspace(-500, 500, 1001)
    for word in FLOAT8:
        y = ops.cast(x, to=getattr(torch, word))
        assert y.dtype == getattr(torch, word)
        assert torch.equal(y.view(torch.uint8), x.to(getattr(torch, word)).view(torch.uint8))
        assert torch.equal(ops.cast(y, to="f32").nan_to_num(), y.float().nan_to_num())


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.bfloat16, jnp.float16])
def test_jax(dtype):
    x = jnp.asarray(grid(2, 3), dtype)
    y = ops.relu(x)
    assert isinstance(y, jax.Array) and y.dtype == dtype
    np.testing.assert_array_equal(np.asarray(y, np.float32), np.maximum(np.asarray(x, np.float32), 0))


def test_jax_is_read_without_a_copy():
    x = jnp.asarray(grid(1000))
    memory = np.from_dlpack(x)
    assert memory.__array_interface__["data"][0] == x.unsafe_buffer_pointer()
    assert baracuda._baracuda.describe_tensor(x) == ("f32", [1000], "cpu")


def test_torch():
    torch = pytest.importorskip("torch")
    x = torch.linspace(-1, 1, 6, dtype=torch.bfloat16).reshape(2, 3).t()
    y = ops.relu(x)
    assert isinstance(y, torch.Tensor) and torch.equal(y, torch.relu(x))
    out = torch.zeros(3, 2, dtype=torch.bfloat16)
    assert ops.relu(x, y=out) is out and torch.equal(out, y)


def test_gradients_of_parts_tell_the_complex_dtype():
    dy = grid(5)
    np.testing.assert_array_equal(ops.real_backward(dy), dy.astype(np.complex64))
    np.testing.assert_array_equal(ops.imag_backward(dy.astype(np.float64)), 1j * dy.astype(np.float64))
    np.testing.assert_array_equal(ops.real_backward(dy, dtype="f32"), dy)


def test_scaled_casts():
    x, scale = grid(4, 6), np.array([64], np.float32)
    y, amax = ops.cast_scaled(x, scale, to=ml_dtypes.float8_e5m2, amax=True)
    np.testing.assert_array_equal(y, (x * 64).astype(ml_dtypes.float8_e5m2))
    assert amax.reshape(()) == np.abs(x).max()
    back = ops.cast_scaled(y, 1 / scale, to="f32")
    np.testing.assert_array_equal(back, y.astype(np.float32) / 64)


def test_sums_of_complex_numbers_are_those_of_their_parts():
    z = np.rint(9 * grid(5, 7) + 9j * grid(5, 7)[::-1]).astype(np.complex64)  # sums of integers are exact
    parts = z.view(np.float32).reshape(5, 7, 2)
    np.testing.assert_array_equal(ops.sum(parts, axes=(1,)).view(np.complex64)[:, 0], z.sum(1))
    np.testing.assert_array_equal(ops.cumsum(parts, axis=0).view(np.complex64)[..., 0], z.cumsum(0))
    np.testing.assert_allclose(ops.norm2(parts, axes=(1, 2)), np.linalg.norm(z, axis=1), rtol=1e-6)


def test_select_n():
    which = np.array([0, 2, -5, 9, 1], np.int32)
    cases = [np.full(5, k, np.float32) for k in range(3)]
    np.testing.assert_array_equal(ops.select_n(which, cases), np.array([0, 2, 0, 2, 1], np.float32))
    np.testing.assert_array_equal(ops.select_n(np.int32(1), cases), cases[1])
    dx = [np.zeros(5, np.float32) for _ in range(3)]
    ops.select_n_backward(grid(5), which, dx=dx)
    np.testing.assert_array_equal(sum(dx), grid(5))


def test_errors_have_the_librarys_text():
    with pytest.raises(baracuda.InvalidProblem, match=r"gated: kind: 'swish' is not one of swiglu"):
        baracuda.Plan("gated", kind="swish", shape=(2,))
    with pytest.raises(baracuda.InvalidProblem, match="no op 'nothing'"):
        baracuda.Plan("nothing")
    with pytest.raises(baracuda.InvalidProblem, match="no field 'sahpe'; the fields are kind dtype shape"):
        baracuda.Plan("gated", sahpe=(2,))
    with pytest.raises(baracuda.Unsupported, match="gated.cpu.map: no i32") as e:
        baracuda.Plan("gated", dtype="i32", shape=(2,))
    assert e.value.code == "unsupported" and isinstance(e.value, NotImplementedError)
    p = baracuda.Plan("gated", shape=(2,))
    with pytest.raises(ValueError, match=r"gated: up is missing"):
        p.run(gate=grid(2), y=grid(2))
    with pytest.raises(ValueError, match=r"gated: gate has dtype f64, expected f32"):
        p.can_implement(gate=grid(2, dtype=np.float64), up=grid(2), y=grid(2))
    with pytest.raises(ValueError, match=r"no argument 'gaet'; the arguments are gate up y"):
        p.run(gaet=grid(2))
    with pytest.raises(ValueError, match="gate takes a tensor"):
        p.run(gate="text", up=grid(2), y=grid(2))
    for array, dtype in ((np.zeros(3, ">f4"), ">f4"), (np.array([1, None]), "object")):
        with pytest.raises(ValueError, match=f"unary: x takes a tensor .* of dtype {dtype}"):
            ops.exp(array)
    with pytest.raises(ValueError, match=r"no op 'softmx'; did you mean softmax\?"):
        baracuda.Plan("softmx", shape=(2,))
    with pytest.raises(ValueError, match="-1, at least 1"):
        baracuda.set_threads(-1)
    with pytest.raises(baracuda.Error):
        baracuda.Plan("gated", shape=(2,), device="cuda", preference={"require_backend": "mkl"})


def test_preferences():
    p = baracuda.Plan("gemm", m=4, n=4, k=4, preference={"require_backend": "baracuda", "require_batch_invariant": True})
    assert p.kernel == "gemm.cpu.blocked" and p.workspace_items
    with pytest.raises(baracuda.Unsupported, match="not batch invariant|requires"):
        baracuda.Plan("gemm", m=4, n=4, k=4, preference={"require_kernel": "gemm.cpu.nothing"})


def test_unaligned_and_overlong_rank_are_refused():
    raw = np.zeros(17, np.uint8)[1:].view(np.float32)
    with pytest.raises(baracuda.InvalidProblem, match="not aligned"):
        ops.abs(raw)
    with pytest.raises(baracuda.InvalidProblem, match="rank 9"):
        ops.abs(np.zeros((1,) * 9, np.float32))


def test_the_gil_is_released():
    """Another thread counts while a long product runs on one thread."""
    before = baracuda.threads()
    baracuda.set_threads(1)
    try:
        a = np.ones((1024, 1024))
        ops.gemm(a[:8], a)
        counted, stop = [0], [False]

        def count():
            while not stop[0]:
                counted[0] += 1
                time.sleep(0.0005)

        t = threading.Thread(target=count)
        t.start()
        start, c0 = time.perf_counter(), counted[0]
        ops.gemm(a, a)
        took, c = time.perf_counter() - start, counted[0] - c0
        stop[0] = True
        t.join()
        assert c > took / 0.0005 / 50, f"{c} counts in {took} s"
    finally:
        baracuda.set_threads(before)


def test_one_plan_from_many_threads():
    p = baracuda.Plan("rms_norm", shape=(64, 256))
    x, w = grid(64, 256), grid(256)
    want = p(x=x, weight=w)
    results = [None] * 8

    def work(i):
        results[i] = p(x=x, weight=w)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    [t.start() for t in threads]
    [t.join() for t in threads]
    for r in results:
        np.testing.assert_array_equal(r, want)
