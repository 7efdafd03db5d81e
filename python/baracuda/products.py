"""Matrix products by the names of numpy and torch, each one `gemm` on views of its operands.

Vectors become matrices of one row or column, batch axes broadcast without a copy where the framework has strides. Keywords
are gemm's fields: products.matmul(a, b, alpha=2, epilogue="relu").
"""
import math
import operator

from . import _arrays, ops

__all__ = ["inner", "matmul", "outer", "tensordot"]


def _expanded(array, shape):
    if tuple(array.shape) == tuple(shape):
        return array
    framework = _arrays.framework(array)
    if framework == "torch":
        return array.expand(shape)
    if framework == "jax":
        import jax.numpy as xp
    else:
        import numpy as xp
    return xp.broadcast_to(array, shape)


def _broadcast(a, b):
    rank = max(len(a), len(b))
    a, b = (1,) * (rank - len(a)) + tuple(a), (1,) * (rank - len(b)) + tuple(b)
    if any(m != n and 1 not in (m, n) for m, n in zip(a, b)):
        raise ValueError(f"matmul: batch axes {a} and {b} do not broadcast")
    return tuple(n if m == 1 else m for m, n in zip(a, b))


def matmul(a, b, **fields):
    """a @ b: the last axis of a with the last but one of b, or its only one."""
    if not a.ndim or not b.ndim:
        raise ValueError("matmul takes no scalars")
    row, column = a.ndim == 1, b.ndim == 1
    a, b = a[None] if row else a, b[:, None] if column else b
    if a.shape[-1] != b.shape[-2]:
        raise ValueError(f"matmul: {a.shape[-1]} columns of a meet {b.shape[-2]} rows of b")
    batch = _broadcast(a.shape[:-2], b.shape[:-2])
    c = ops.gemm(_expanded(a, (*batch, *a.shape[-2:])), _expanded(b, (*batch, *b.shape[-2:])), **fields)
    c = c[..., 0] if column else c
    return c[..., 0, :] if row and not column else c[..., 0] if row else c


def outer(a, b, **fields):
    """a_i b_j of the elements of both."""
    return ops.gemm(a.reshape(-1)[:, None], b.reshape(-1)[None], **fields)


def inner(a, b, **fields):
    """The sum over the last axis of both."""
    if not a.ndim or not b.ndim or a.shape[-1] != b.shape[-1]:
        raise ValueError(f"inner: the last axes of {tuple(a.shape)} and {tuple(b.shape)} differ")
    rows, columns = tuple(a.shape[:-1]), tuple(b.shape[:-1])
    k = a.shape[-1]
    c = ops.gemm(a.reshape(math.prod(rows), k), b.reshape(math.prod(columns), k), trans_b=True, **fields)
    return c.reshape(rows + columns)


def _axes(t, given):
    axes = [operator.index(i) for i in (given if hasattr(given, "__iter__") else [given])]
    found = [i % t.ndim for i in axes if -t.ndim <= i < t.ndim]
    if len(set(found)) < len(axes):
        raise ValueError(f"tensordot: {axes} are not axes of {tuple(t.shape)}, each once")
    return found


def tensordot(a, b, axes=2, **fields):
    """The sum over axes: the last n of a with the first n of b, or a pair of lists of axes."""
    if not hasattr(axes, "__iter__"):
        n = operator.index(axes)
        if not 0 <= n <= min(a.ndim, b.ndim):
            raise ValueError(f"tensordot: {n} axes of {tuple(a.shape)} and {tuple(b.shape)}")
        axes = range(a.ndim - n, a.ndim), range(n)
    first, second = axes
    mine, yours = _axes(a, first), _axes(b, second)
    if [a.shape[i] for i in mine] != [b.shape[i] for i in yours]:
        raise ValueError(f"tensordot: axes {mine} of {tuple(a.shape)} and {yours} of {tuple(b.shape)} differ")
    rows, columns = [i for i in range(a.ndim) if i not in mine], [i for i in range(b.ndim) if i not in yours]
    move = (lambda t, order: t.permute(order)) if _arrays.framework(a) == "torch" else (lambda t, order: t.transpose(order))
    k = math.prod(a.shape[i] for i in mine)
    left = move(a, rows + mine).reshape(math.prod(a.shape[i] for i in rows), k)
    right = move(b, yours + columns).reshape(k, math.prod(b.shape[i] for i in columns))
    return ops.gemm(left, right, **fields).reshape(tuple(a.shape[i] for i in rows) + tuple(b.shape[i] for i in columns))
