"""baracuda.products against numpy."""
import jax.numpy as jnp
import numpy as np
import pytest

from baracuda import products

RANDOM = np.random.default_rng(1)


def numbers(*shape):
    return RANDOM.integers(-8, 9, shape).astype(np.float32)  # their sums are exact


@pytest.mark.parametrize("a, b", [((3,), (3,)), ((3,), (3, 5)), ((4, 3), (3,)), ((4, 3), (3, 5)), ((2, 4, 3), (3, 5)), ((4, 3), (2, 3, 5)),
                                  ((7, 1, 4, 3), (2, 3, 5)), ((2, 4, 3), (3,)), ((3,), (2, 3, 5)), ((0, 3), (3, 5)), ((4, 0), (0, 5))])
def test_matmul(a, b):
    x, y = numbers(*a), numbers(*b)
    np.testing.assert_array_equal(products.matmul(x, y), np.matmul(x, y))
    np.testing.assert_array_equal(np.asarray(products.matmul(jnp.asarray(x), jnp.asarray(y))), np.matmul(x, y))


def test_matmul_of_strides_and_fields():
    x, y = numbers(5, 8)[::-1, ::2], numbers(6, 4).T
    np.testing.assert_array_equal(products.matmul(x, y, alpha=2.0, epilogue="relu"), np.maximum(2 * (x @ y), 0))


def test_outer_inner_tensordot():
    x, y = numbers(3, 4), numbers(5)
    np.testing.assert_array_equal(products.outer(x, y), np.outer(x, y))
    a, b = numbers(2, 3, 4), numbers(6, 4)
    np.testing.assert_array_equal(products.inner(a, b), np.inner(a, b))
    np.testing.assert_array_equal(products.inner(y, y), np.inner(y, y))
    a, b = numbers(2, 3, 4, 5), numbers(4, 5, 6)
    for axes in (2, 0, ([2, 3], [0, 1]), ([-2], [0]), (3, 1)):
        np.testing.assert_array_equal(products.tensordot(a, b, axes), np.tensordot(a, b, axes))
    for axes in (-1, 4, ([4], [0]), ([-5], [0]), ([2, 2], [0, 0]), ([3], [1, 2])):
        with pytest.raises(ValueError, match="tensordot"):
            products.tensordot(a, b, axes)


def test_torch():
    torch = pytest.importorskip("torch")
    x, y = torch.from_numpy(numbers(2, 4, 3)), torch.from_numpy(numbers(3, 5))
    assert torch.equal(products.matmul(x, y), x @ y)
    assert torch.equal(products.tensordot(x, y, 1), torch.tensordot(x, y, 1))


def test_what_is_refused():
    with pytest.raises(ValueError, match="3 columns of a meet 4 rows"):
        products.matmul(numbers(2, 3), numbers(4, 5))
    with pytest.raises(ValueError, match="do not broadcast"):
        products.matmul(numbers(2, 2, 3), numbers(3, 3, 5))
    with pytest.raises(ValueError, match="last axes"):
        products.inner(numbers(2, 3), numbers(4))
    with pytest.raises(ValueError, match="differ"):
        products.tensordot(numbers(2, 3), numbers(4, 5), 1)
