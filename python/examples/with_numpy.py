"""Forward and backward of a normalised, gated layer on numpy arrays: functions that allocate, then plans in memory of one's own."""
import baracuda
import numpy as np
from baracuda import ops

rng = np.random.default_rng(1)
x, w = rng.standard_normal((4, 8), np.float32), np.ones(8, np.float32)
up = rng.standard_normal((4, 8), np.float32)

h, rstd = ops.rms_norm(x, weight=w, rstd=True)
y = ops.swiglu(h, up)
dh, dup = ops.swiglu_backward(np.ones_like(y), h, up, dgate=True, dup=True)
dx, dw = ops.rms_norm_backward(dh, x, weight=w, rstd=rstd, dweight=True)

# The same by a plan: chosen once, run without allocating, into views of any strides that the op takes.
plan = baracuda.Plan("rms_norm", dtype="f32", shape=x.shape)
rows = np.empty((4, 16), np.float32)
plan.run(x=x, weight=w, y=rows[:, :8])
assert np.array_equal(rows[:, :8], h)
print(plan.kernel, plan.guarantee, "dx", dx.shape, "dw", dw.shape)
