"""Tensors of torch on a GPU: read and written where they lie, on torch's current stream."""
import baracuda
import pytest
from baracuda import ops

torch = pytest.importorskip("torch")
if not torch.cuda.is_available():
    pytest.skip("torch sees no GPU", allow_module_level=True)
DEVICE = torch.device("cuda", 0)


def normal(*shape, seed=1, dtype=torch.float32):
    return torch.randn(*shape, generator=torch.Generator(DEVICE).manual_seed(seed), device=DEVICE).to(dtype)


def rms(x, w, eps=1e-6):
    x = x.double()
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * w.double()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
def test_outputs_are_made_where_the_inputs_lie(dtype):
    x, w = normal(33, 257, dtype=dtype), normal(257, seed=2, dtype=dtype)
    y, rstd = ops.rms_norm(x, weight=w, rstd=True)
    assert y.device == DEVICE and y.dtype == dtype and rstd.device == DEVICE
    error = (y.double() - rms(x, w)).abs().max() / rms(x, w).abs().max()
    assert error <= 2 * torch.finfo(dtype).eps


def test_views_are_taken_as_they_are():
    whole = normal(6, 8)
    gate, up = whole[:, ::2].t(), whole[:, 1::2].t()
    y = torch.full((8, 6), float("nan"), device=DEVICE)
    assert ops.reglu(gate, up, y=y[::2]) is not None
    torch.testing.assert_close(y[::2], torch.relu(gate) * up, rtol=0, atol=0)
    assert y[1::2].isnan().all()


def test_scratch_is_made():
    x, dy, w = normal(1000, 64), normal(1000, 64, seed=2), normal(64, seed=3)
    _, rstd = ops.rms_norm(x, weight=w, rstd=True)
    dx, dweight = ops.rms_norm_backward(dy, x, weight=w, rstd=rstd, dweight=True)
    xd, wd = x.double().requires_grad_(), w.double().requires_grad_()
    rms(xd, wd).backward(dy.double())
    torch.testing.assert_close(dx.double(), xd.grad, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(dweight.double(), wd.grad, rtol=1e-5, atol=1e-4)


def test_a_call_is_queued_on_the_current_stream():
    x = torch.zeros(1 << 20, device=DEVICE)
    torch.cuda.synchronize()
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        torch.cuda._sleep(200_000_000)  # on another stream the call would come before the fill
        x.fill_(3)
        y = ops.reglu(x, x)
        assert not side.query()  # the call did not wait
    side.synchronize()
    assert (y == 9).all()


def test_a_plan_is_captured_and_replayed():
    plan = baracuda.Plan("rms_norm_backward", dtype="f32", shape=(300, 64), weight_dtype="f32", device="cuda")
    x, dy, w, rstd = normal(300, 64), normal(300, 64, seed=2), normal(64, seed=3), torch.ones(300, device=DEVICE)
    dx, dweight = torch.empty_like(x), torch.empty_like(w)
    run = lambda: plan.run(dy=dy, x=x, weight=w, rstd=rstd, dx=dx, dweight=dweight)
    run()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        run()
    dy.copy_(normal(300, 64, seed=4)), dx.fill_(float("nan")), dweight.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    replayed = dx.clone(), dweight.clone()
    run()
    assert torch.equal(replayed[0], dx) and torch.equal(replayed[1], dweight)


def test_autograd_over_plans():
    class Norm(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, weight):
            y, rstd = ops.rms_norm(x, weight=weight, rstd=True)
            ctx.save_for_backward(x, weight, rstd)
            return y

        @staticmethod
        def backward(ctx, dy):
            x, weight, rstd = ctx.saved_tensors
            return ops.rms_norm_backward(dy, x, weight=weight, rstd=rstd, dweight=True)

    x, w = normal(4, 8).requires_grad_(), normal(8, seed=2).requires_grad_()
    Norm.apply(x, w).square().sum().backward()
    xd, wd = x.detach().double().requires_grad_(), w.detach().double().requires_grad_()
    rms(xd, wd).square().sum().backward()
    torch.testing.assert_close(x.grad.double(), xd.grad, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(w.grad.double(), wd.grad, rtol=1e-4, atol=1e-4)


def test_refusals():
    x = normal(4)
    with pytest.raises(baracuda.InvalidProblem, match="up is on cpu, the plan runs on cuda:0"):
        ops.reglu(x, x.cpu())
    with pytest.raises(baracuda.Unsupported, match="there is no device 99"):
        baracuda.Plan("gated", shape=(4,), device="cuda:99")
    with pytest.raises(baracuda.InvalidProblem, match="no device 'gpu'"):
        baracuda.Plan("gated", shape=(4,), device="gpu")
    with pytest.raises(TypeError, match="outputs on cuda:0 are made as torch's tensors alone"):
        baracuda.Plan("gated", shape=(4,), device="cuda")(gate=x, up=x)
