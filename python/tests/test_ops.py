"""The functions of baracuda.ops against numpy, on random shapes and strides, and their making from the registry."""
import baracuda
import numpy as np
import pytest
from baracuda import _names, ops

rng = np.random.default_rng(7)


def random_view(shape, dtype=np.float32):
    """Random values under random strides: permuted, flipped or cut from something larger."""
    order = rng.permutation(len(shape))
    big = rng.standard_normal([shape[i] + int(rng.integers(3)) for i in order]).astype(dtype)
    view = big[tuple(slice(0, shape[i]) for i in order)].transpose(np.argsort(order))
    return view[tuple(slice(None, None, -1 if rng.integers(3) == 0 else 1) for _ in shape)]


SHAPES = [(), (1,), (0,), (5,), (3, 4), (2, 0, 3), (2, 3, 5), (7, 1, 2, 3), (33, 65)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_elementwise(shape):
    x = random_view(shape)
    for name, numpy in {"abs": np.abs, "neg": np.negative, "square": np.square, "sqrt": lambda v: np.sqrt(v)}.items():
        with np.errstate(invalid="ignore"):
            np.testing.assert_array_equal(getattr(ops, name)(x), numpy(x))
    for name, numpy in {"exp": np.exp, "tanh": np.tanh}.items():
        np.testing.assert_allclose(getattr(ops, name)(x), numpy(x.astype(np.float64)), rtol=1e-6)
    a, b = random_view(shape, np.float64), random_view(shape, np.float64)
    np.testing.assert_array_equal(ops.mul(a, b), a * b)
    np.testing.assert_array_equal(ops.scale_add(a, b, alpha=2, beta=-1), 2 * a - b)


@pytest.mark.parametrize("a,b", [((3, 1), (1, 4)), ((), (2, 3)), ((5, 1, 2), (3, 1)), ((0, 1), (1, 4))])
def test_broadcasting_and_its_gradient(a, b):
    x, y = random_view(a), random_view(b)
    z = ops.add(x, y)
    np.testing.assert_array_equal(z, x + y)
    dx, dy = ops.add_backward(z, da=True, db=True, a=x, b=y)
    assert dx.shape == a and dy.shape == b
    for got, shape in ((dx, a), (dy, b)):
        lead = z.sum(axis=tuple(range(z.ndim - len(shape))))
        want = lead.sum(axis=tuple(i for i, n in enumerate(shape) if n == 1), keepdims=True).reshape(shape)
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def test_scalars_and_tensors():
    x = random_view((3, 5))
    np.testing.assert_array_equal(ops.clamp_scalar(x, alpha=-0.5, beta=0.5), x.clip(-0.5, 0.5))
    np.testing.assert_array_equal(ops.clamp(x, np.float32([-0.5]), np.float32([0.5])), x.clip(-0.5, 0.5))


def test_lists_of_indices():
    x, i, j = rng.standard_normal((4, 5, 3)).astype(np.float32), np.array([0, 3, 3]), np.array([4, 1, 1])
    np.testing.assert_array_equal(ops.index(x, [i, j], axes=[0, 1]), x[i, j])
    want = x.copy()
    np.add.at(want, (i, j), np.ones((3, 3), np.float32))
    np.testing.assert_allclose(ops.index_put(x, [i, j], np.ones((3, 3), np.float32), axes=[0, 1], reduce="add"), want, rtol=1e-6)


def test_complex_parts():
    a, b = rng.standard_normal(5), rng.standard_normal(5)
    dy = a + 1j * b
    da, db = ops.complex_backward(dy, a=a, b=b, da=True, db=True)
    np.testing.assert_array_equal(da, dy.real)
    np.testing.assert_array_equal(db, dy.imag)
    with np.errstate(all="ignore"):
        assert ops.div(np.array([1e308 + 1e308j]), np.array([complex(np.inf, np.inf)]))[0] == 0


def test_axes_are_integers():
    with pytest.raises(TypeError):
        ops.sum(np.ones((2, 3), np.float32), axes=[0.7])


def test_products():
    a, b = random_view((3, 4, 5)), random_view((3, 5, 6))
    np.testing.assert_allclose(ops.gemm(a, b), a @ b, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(ops.gemm(a, np.ascontiguousarray(b.transpose(0, 2, 1)), trans_b=True, alpha=2), 2 * (a @ b), rtol=1e-5, atol=1e-5)
    c = np.ones((3, 4, 6), np.float32)
    bias = random_view((6,))
    assert ops.gemm(a, b, c, beta=1, bias=bias) is c
    np.testing.assert_allclose(c, a @ b + 1 + bias, rtol=1e-5, atol=1e-5)


def test_optional_outputs():
    x, w = rng.standard_normal((4, 8)).astype(np.float32), np.ones(8, np.float32)
    y = ops.rms_norm(x, weight=w)
    both = ops.rms_norm(x, weight=w, rstd=True)
    np.testing.assert_array_equal(both[0], y)
    np.testing.assert_allclose(both[1], 1 / np.sqrt((x.astype(np.float64) ** 2).mean(-1) + 1e-6), rtol=1e-6)
    with pytest.raises(baracuda.InvalidProblem, match="residual_out is given, but no residual"):
        ops.rms_norm(x, weight=w, residual_out=True)


def test_an_output_is_asked_for():
    x = np.ones((2, 3), np.float32)
    with pytest.raises(baracuda.InvalidProblem, match="gated_backward: no output is asked for; dgate=True dup=True make one"):
        ops.gated_backward(x, x, x)
    assert ops.gated_backward(x, x, x, dup=True).shape == x.shape


def test_one_hot_is_int64_whatever_the_indices():
    for dtype in (np.int32, np.int64):
        y = ops.one_hot(np.array([2, 0], dtype), classes=3)
        assert y.dtype == np.int64 and y.tolist() == [[0, 0, 1], [1, 0, 0]]
    assert ops.one_hot(np.array([1], np.int32), classes=2, dtype=np.float32).dtype == np.float32


def test_losses_and_tables():
    logits, target = rng.standard_normal((5, 7)).astype(np.float32), np.array([0, 6, 3, -100, 2])
    loss = ops.cross_entropy(logits, target)
    p = logits.astype(np.float64)
    lse = np.log(np.exp(p).sum(-1))
    want = np.mean([lse[i] - p[i, t] for i, t in enumerate(target) if t >= 0])
    assert loss.shape == () and abs(float(loss) - want) < 1e-6
    per_row = ops.cross_entropy(logits, target.astype(np.int32), reduction="none")
    assert per_row.shape == (5,) and per_row[3] == 0
    table = rng.standard_normal((9, 4)).astype(np.float32)
    ids = np.array([[1, 8], [0, 3]], np.int32)
    np.testing.assert_array_equal(ops.embedding(ids, table), table[ids])
    q, k = rng.standard_normal((1, 2, 3, 8)).astype(np.float32), rng.standard_normal((1, 1, 4, 8)).astype(np.float32)
    y, s = ops.flash_sdpa(q, k, k, lse=True)
    scores = (q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2)) / np.sqrt(8)
    np.testing.assert_allclose(s, np.log(np.exp(scores).sum(-1)), rtol=1e-5)
    np.testing.assert_allclose(y, np.exp(scores - np.log(np.exp(scores).sum(-1))[..., None]) @ k, rtol=1e-4, atol=1e-5)


def test_without_inputs():
    y = ops.random_uniform(shape=(1000,), seed=5, lo=2, hi=3)
    assert y.min() >= 2 and y.max() < 3
    np.testing.assert_array_equal(y[500:], ops.random_uniform(shape=(500,), seed=5, offset=500, lo=2, hi=3))
    np.testing.assert_array_equal(ops.fill(shape=(2, 3), dtype=np.int16, value=-3), np.full((2, 3), -3, np.int16))
    assert ops.cast(np.array([1.9, -1.9, np.nan], np.float32), to="i32").tolist() == [1, -1, 0]
    x = np.array([[0.5, 3, -6, 100], [1, 2, 4, -0.5]], np.float32)
    assert ops.cast_packed(x).tolist() == [[0x51, 0x7f], [0x42, 0x96]]
    np.testing.assert_array_equal(ops.cast_from_packed(ops.cast_packed(x)), np.minimum(x, 6))
    assert ops.cast_e8m0(x[1, :3], rounding="up").tolist() == [127, 128, 129]
    np.testing.assert_array_equal(ops.cast_from_e8m0(ops.cast_e8m0(x[1, :3])), x[1, :3])
    assert set(ops.cast_stochastic(np.full(1000, 1.0005, np.float32), to="f16", seed=3).tolist()) == {1.0, 1 + 2.0 ** -10}


def test_sizes_of_slices_tables_and_tokens():
    x, update = np.arange(12, dtype=np.float32).reshape(3, 4), np.full((2, 2), 9, np.float32)
    want = x.copy()
    want[1:, 1:3] = 9
    np.testing.assert_array_equal(ops.update_slice(x, update, start=(1, 1)), want)
    for dtype in (np.int32, np.int64):
        np.testing.assert_array_equal(ops.dynamic_update_slice(x, update, np.array([7, 1], dtype)), want)
        np.testing.assert_array_equal(ops.dynamic_slice(x, np.array([1, 1], dtype), size=(2, 2)), x[1:, 1:3])
        penalized = ops.token_penalty(x, np.array([[0, 0, 2]] * 3, dtype), frequency=1)
        np.testing.assert_array_equal(penalized, x - np.array([2, 0, 1, 0], np.float32))
        prompted = ops.token_penalty(x, np.zeros((3, 0), dtype), prompt=np.array([[1]] * 3, dtype), repetition=2)
        np.testing.assert_array_equal(prompted, x / np.array([1, 2, 1, 1], np.float32))
    dy, ids, dweight = np.ones((2, 3), np.float32), np.array([0, 3]), np.zeros((5, 3), np.float32)
    np.testing.assert_array_equal(ops.embedding_backward(dy, ids, dweight=dweight), ops.embedding_backward(dy, ids, vocabulary=5))
    with pytest.raises(TypeError, match="takes vocabulary"):
        ops.embedding_backward(dy, ids)


def test_lists_of_tensors():
    params, grads = [np.ones(3, np.float32), np.ones((2, 2), np.float32)], [np.full(3, 2, np.float32), np.zeros((2, 2), np.float32)]
    m, v = [np.zeros_like(p) for p in params], [np.zeros_like(p) for p in params]
    ops.adamw(params, grads, m, v, step=1, lr=0.1, weight_decay=0.0)
    np.testing.assert_allclose(params[0], 0.9, rtol=1e-5)
    np.testing.assert_array_equal(params[1], 1)
    assert abs(float(ops.global_norm(grads)) - np.sqrt(12)) < 1e-6
    assert ops.global_norm(tuple(grads)) == ops.global_norm(grads)
    np.testing.assert_array_equal(ops.concat((grads[0], grads[0])), np.full(6, 2, np.float32))


def test_only_what_can_be_computed_has_a_function():
    for name in ("eq_backward", "isnan_backward", "gcd_backward", "any_backward", "count_nonzero_backward", "logits", "probabilities"):
        assert not hasattr(ops, name), name
    for name in ("eq", "exp_backward", "any", "max_backward", "categorical"):
        assert hasattr(ops, name), name


def test_wrong_calls_are_python_errors():
    with pytest.raises(TypeError, match=r"exp\(\) has no argument or field 'knd'; fields: .*shape; arguments: x y"):
        ops.exp(np.ones(2, np.float32), knd=1)
    with pytest.raises(TypeError, match=r"exp\(\) takes 1 tensors \(x\), got 2"):
        ops.exp(np.ones(2), np.ones(2))
    with pytest.raises(TypeError, match="two values for x"):
        ops.exp(np.ones(2), x=np.ones(2))
    with pytest.raises(baracuda.InvalidProblem, match="do not broadcast"):
        ops.add(np.ones(2), np.ones(3))


def test_plans_are_kept():
    ops.exp(np.ones(3, np.float32))
    hits = ops._plan.cache_info().hits
    ops.exp(np.zeros(3, np.float32))
    assert ops._plan.cache_info().hits == hits + 1


def test_every_op_has_a_function():
    for op in ops.REGISTRY:
        f = getattr(ops, _names.safe(op["name"]))
        assert op["summary"] in f.__doc__
    for op in ops.REGISTRY:
        if op["name"] in ("unary", "binary", "ternary", "reduce", "arg_reduce", "scan", "softmax"):
            kinds = next(f["values"] for f in op["fields"] if f["name"] == "kind")
            assert not {_names.safe(k) for k in kinds} - set(ops.__all__), "a kind that two ops have gets no function"
    assert set(ops.__all__) == set(_names.functions(ops.REGISTRY))
    assert baracuda.op_names() == [op["name"] for op in ops.REGISTRY]


def test_names():
    def op(name, *kinds):
        return {"name": name, "fields": [{"name": "kind", "values": list(kinds)}], "args": []}
    table = _names.functions([op("a", "x", "and", "b"), op("a_backward", "x"), op("b", "y"), op("c", "y")])
    assert sorted(table) == ["a", "a_backward", "and_", "b", "c", "x", "x_backward"]
    assert table["and_"][1] == "and" and table["b"][1] is None
    table = _names.functions([op("g", "x", "y"), op("g_backward", "x", "y"), op("g_half", "x", "y"), op("g_half_fast", "x", "y")])
    assert {n: table[n][0]["name"] for n in table if n.startswith("x")} == {"x": "g", "x_backward": "g_backward", "x_half": "g_half", "x_half_fast": "g_half_fast"}
    table = _names.functions([op("unary", "clamp"), op("ternary", "clamp"), op("unary_backward", "clamp"), op("ternary_backward", "clamp")])
    assert {n: table[n][0]["name"] for n in table if n.startswith("clamp")} == {
        "clamp": "ternary", "clamp_scalar": "unary", "clamp_backward": "ternary_backward", "clamp_scalar_backward": "unary_backward"}
