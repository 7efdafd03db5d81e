"""The command line on a device.  device_test.py BARACUDA TEXT [HALF [CASE...]]

HALF is a CUDA half to load; one with "host" in its name runs the CPU's plans, so that every result has the CPU's bits. Without it
(or with "") the device is a GPU: results are near the CPU's, and the same bits again and again. Standard library only; exit code 77 where there is
no device.
"""
import json
import os
import signal
import struct
import subprocess
import sys
import tempfile

BARACUDA, TEXT = sys.argv[1:3]
HALF = sys.argv[3] if len(sys.argv) > 3 else ""
EXACT = "host" in os.path.basename(HALF)
if HALF:
    os.environ["BARACUDA_CUDA_LIBRARY"] = HALF
SMALL = "--layers 2 --width 64 --heads 4 --kv-heads 2 --hidden 96 --context 64 --batch 3 --warmup 3 --lr 0.01 --svg".split() + [""]
LOSS_TOLERANCE = 1e-3  # relative, over 20 steps in f32


def run(*words, code=0):
    r = subprocess.run([BARACUDA, *map(str, words)], capture_output=True)
    out, err = r.stdout.decode(errors="replace"), r.stderr.decode(errors="replace")
    assert r.returncode == code, f"{words}: exit code {r.returncode}, expected {code}: {out[-500:]}{err}"
    return err if code else out


def train(*options, device="cuda", **how):
    defaults = [] if "--resume" in options else [*SMALL, "--data", TEXT]
    return run("train", *options, *defaults, "--device", device, **how)


def lines(out):
    return [line for line in out.splitlines() if line.startswith("step ")]


def losses(out):
    return [float(line.split()[3]) for line in lines(out)]


def sample(out):
    return out.split("--- sample")[1].split("---\n")[0]


def read(path):
    with open(path, "rb") as f:
        return f.read()


def near(a, b, tolerance):
    assert len(a) == len(b) and a, (a, b)
    worst = max(abs(x - y) / abs(y) for x, y in zip(a, b))
    assert worst == 0 if EXACT else worst <= tolerance, f"relative difference {worst:.3g}"
    return worst


def case_losses_are_the_cpus(d):
    for dtype, tolerance in (("f32", LOSS_TOLERANCE), ("bf16", 2.0 ** -6)):
        out = {device: train("--steps", 20, "--dtype", dtype, "--checkpoint", f"{d}/{device}", "--sample", 40, device=device) for device in ("cpu", "cuda")}
        worst = near(losses(out["cuda"]), losses(out["cpu"]), tolerance)
        print(f"  {dtype}: 20 losses, largest relative difference {worst:.2e}")
        assert "every run on this device gives the same bits" in out["cuda"] and ".cuda." in out["cuda"] and ".cpu." not in out["cuda"]
        if EXACT:
            assert sample(out["cuda"]) == sample(out["cpu"]) and read(f"{d}/cuda") == read(f"{d}/cpu")


def case_the_same_bits_again_and_over_a_resume(d):
    for dtype in ("f32", "bf16"):
        whole = train("--steps", 12, "--dtype", dtype, "--checkpoint", f"{d}/whole", "--sample", 40)
        again = train("--steps", 12, "--dtype", dtype, "--checkpoint", f"{d}/again", "--sample", 40)
        assert lines(whole) == lines(again) and sample(whole) == sample(again) and read(f"{d}/whole") == read(f"{d}/again")
        first = train("--steps", 12, "--dtype", dtype, "--checkpoint", f"{d}/part", "--stop-after", 5, "--sample", 0)
        rest = train("--resume", f"{d}/part", "--svg", "", "--sample", 40)
        assert lines(first) + lines(rest) == lines(whole) and sample(rest) == sample(whole) and read(f"{d}/part") == read(f"{d}/whole")


def case_a_checkpoint_goes_from_device_to_device(d):
    for here, there in (("cpu", "cuda"), ("cuda", "cpu")):
        whole = train("--steps", 12, "--checkpoint", "", "--sample", 0, device=here)
        train("--steps", 12, "--checkpoint", f"{d}/part", "--stop-after", 6, "--sample", 0, device=here)
        near(losses(train("--resume", f"{d}/part", "--svg", "", "--sample", 0, device=there)), losses(whole)[6:], LOSS_TOLERANCE)


def case_a_signal_saves_and_stops(d):
    whole = train("--steps", 300, "--checkpoint", f"{d}/whole", "--sample", 0)
    p = subprocess.Popen([BARACUDA, "train", *SMALL, "--data", TEXT, "--steps", "300", "--checkpoint", f"{d}/part", "--device", "cuda"], stdout=subprocess.PIPE, text=True)
    while not p.stdout.readline().startswith("step 10 "):
        pass
    p.send_signal(signal.SIGINT)
    rest = p.stdout.read()
    assert p.wait() == 130 and "stopped after step" in rest, rest
    assert losses(train("--resume", f"{d}/part", "--svg", "", "--sample", 0))[-1] == losses(whole)[-1]
    assert read(f"{d}/part") == read(f"{d}/whole")


def tensors(path):
    """{name: floats} of a safetensors file of f32."""
    raw = read(path)
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    data = raw[8 + size:]
    return {name: struct.unpack(f"<{(t['data_offsets'][1] - t['data_offsets'][0]) // 4}f", data[slice(*t["data_offsets"])]) for name, t in header.items()}


def case_first_weights_and_gradients(d):
    for device in ("cpu", "cuda"):
        train("--steps", 2, "--checkpoint", "", "--sample", 0, "--save-init", f"{d}/i{device}", "--save-gradients", f"{d}/g{device}", device=device)
    assert read(f"{d}/icpu") == read(f"{d}/icuda")  # random numbers have the same bits everywhere
    want, got = tensors(f"{d}/gcpu"), tensors(f"{d}/gcuda")
    assert want.keys() == got.keys()
    for name, x in want.items():
        norm = sum(v * v for v in x) ** 0.5
        error = sum((v - w) ** 2 for v, w in zip(got[name], x)) ** 0.5
        assert error == 0 if EXACT else error <= 1e-4 * norm, f"{name}: {error / norm:.3g} of the norm"


def case_run_verify_bench_and_explain(d):
    for device in ("cpu", "cuda"):
        run("run", "random_normal", "shape=1001,3", "--seed", 5, "-o", f"{d}/{device}.npy", "--device", device)
        run("run", "gated", "--gate", f"{d}/cpu.npy", "--up", f"{d}/cpu.npy", "-o", f"{d}/y{device}.npy", "--device", device)
        run("run", "global_norm", "--x", f"{d}/cpu.npy", "--x", f"{d}/cpu.npy", "-o", f"{d}/n{device}.npy", "--device", device)
    assert read(f"{d}/cpu.npy") == read(f"{d}/cuda.npy") and read(f"{d}/ycpu.npy") == read(f"{d}/ycuda.npy")
    near(*(struct.unpack("<f", read(f"{d}/n{device}.npy")[-4:]) for device in ("cuda", "cpu")), 1e-6)
    out = run("verify", "gated", "shape=33,5", "dtype=bf16", "--device", "cuda")
    assert "kernel    gated.cuda." in out and "reference gated.cpu." in out, out
    out = run("bench", "gated", "--shape", "64,64", "--seconds", 0, "--json", f"{d}/b.json", "--device", "cuda")
    assert "cuda:0 (sm_" in out and "gated.cuda." in out and '"device": "cuda:0' in read(f"{d}/b.json").decode(), out
    assert "gated.cuda." in run("explain", "gated", "shape=4", "--device", "cuda:0")
    out = run("ops", "--device", "cuda")
    assert " gated " in out and ".cuda." in out and ".cpu." not in out, out


def case_what_is_not_there_is_refused_in_one_line(d):
    for fragment, words in [("there is no device 999", ("train", "--device", "cuda:999", *SMALL, "--data", TEXT)),
                            ("there is no device 999", ("run", "gated", "shape=3", "--device", "cuda:999")),
                            ("gate is missing", ("run", "gated", "shape=3", "--device", "cuda")),
                            ("free: choose a smaller", ("train", "--device", "cuda", "--data", TEXT, "--layers", 1000, "--width", 65536, "--heads", 1024, "--hidden", 1048576))]:
        err = run(*words, code=1)
        assert err.count("\n") == 1 and fragment in err, err


def main():
    there = subprocess.run([BARACUDA, "explain", "gated", "shape=1", "--device", "cuda"], capture_output=True, text=True)
    if there.returncode:
        print("no device: skipped:", there.stderr.strip())
        sys.exit(77)
    failed = 0
    cases = {n.removeprefix("case_"): f for n, f in globals().items() if n.startswith("case_")}
    for name in sys.argv[4:] or cases:
        with tempfile.TemporaryDirectory(prefix="baracuda_device_") as d:
            try:
                cases[name](d)
                print("ok    ", name, flush=True)
            except Exception as e:  # one case that fails must not hide the others
                failed += 1
                print(f"FAILED {name}: {type(e).__name__}: {str(e)[-1500:]}", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
