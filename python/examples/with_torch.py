"""A torch.autograd.Function of two plans. Needs torch; without it the example says so."""
import sys

from baracuda import ops

try:
    import torch
except ImportError:
    print("torch is not installed: skipped")
    sys.exit(0)


class RmsNorm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        y, rstd = ops.rms_norm(x, weight=weight, rstd=True)
        ctx.save_for_backward(x, weight, rstd)
        return y

    @staticmethod
    def backward(ctx, dy):
        x, weight, rstd = ctx.saved_tensors
        return ops.rms_norm_backward(dy, x, weight=weight, rstd=rstd, dweight=True)


x, w = torch.randn(4, 8, requires_grad=True), torch.ones(8, requires_grad=True)
RmsNorm.apply(x, w).square().sum().backward()
dx, dw, x.grad, w.grad = x.grad, w.grad, None, None
torch.nn.functional.rms_norm(x, (8,), w, 1e-6).square().sum().backward()
torch.testing.assert_close(dx, x.grad), torch.testing.assert_close(dw, w.grad)
print("dx", tuple(dx.shape), "dw", tuple(dw.shape))
