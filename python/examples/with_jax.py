"""Functions on jax arrays, and a gradient of ours for jax.grad. They are eager: under jax.jit go through jax.pure_callback."""
import jax
import jax.numpy as jnp
from baracuda import ops


@jax.custom_vjp
def cumulative_product(x):
    return ops.cumprod(x, axis=0)


def forward(x):
    y = ops.cumprod(x, axis=0)
    return y, (x, y)


def backward(saved, dy):
    x, y = saved
    return (ops.cumprod_backward(dy, x=x, y=y, axis=0),)


cumulative_product.defvjp(forward, backward)
x = jnp.array([2.0, 0.0, 3.0, -1.0])  # a zero is no trouble
dx = jax.grad(lambda v: cumulative_product(v).sum())(x)
want = jax.grad(lambda v: jnp.cumprod(v).sum())(x)
assert isinstance(dx, jax.Array) and jnp.allclose(dx, want), (dx, want)
print("dx", dx)
