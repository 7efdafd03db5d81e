"""`baracuda train` from outside, on a model of a few thousand weights.  train_test.py BARACUDA TEXT [CASE...]

Standard library only. Every case is a function case_*; the name of one that fails is printed with what differed.
"""

import json
import os
import pty
import random
import resource
import signal
import struct
import subprocess
import sys
import tempfile
import time
import xml.dom.minidom

BARACUDA, TEXT = sys.argv[1:3]
MODEL = {"--layers": "2", "--width": "32", "--heads": "4", "--kv-heads": "2", "--hidden": "48", "--context": "24", "--batch": "3", "--warmup": "3", "--lr": "0.01"}
DEFAULTS = {"--checkpoint": "", "--svg": "", "--sample": "0", "--threads": "2"}


def command(*options, data=TEXT):
    given = [str(o) for o in options]
    defaults = DEFAULTS if "--resume" in given else {**DEFAULTS, **MODEL, "--data": data}
    return [BARACUDA, "train", *given, *(x for key, value in defaults.items() if key not in given for x in (key, value))]


def run(*options, code=0, data=TEXT, **how):
    r = subprocess.run(command(*options, data=data), capture_output=True, **how)
    r.out, r.err = r.stdout.decode(errors="replace"), r.stderr.decode(errors="replace")
    assert r.returncode == code, f"exit code {r.returncode}, expected {code}: {r.out[-500:]}{r.err}"
    return r


def losses(r):
    """Lines `step N loss X`, as text: equality is equality of bits."""
    return [line for line in r.out.splitlines() if line.startswith("step ")]


def read(path):
    with open(path, "rb") as f:
        return f.read()


def refused(fragment, *options, **how):
    r = run(*options, code=1, **how)
    assert r.err.count("\n") == 1 and r.err.startswith("baracuda train: ") and fragment in r.err, f"want one line with {fragment!r}, got {r.err!r}"


def case_same_bits_for_any_number_of_threads(d):
    for dtype in ("f32", "bf16"):
        seen = []
        for threads in (1, 2, 3, 8):
            r = run("--steps", 8, "--dtype", dtype, "--threads", threads, "--checkpoint", f"{d}/c{threads}", "--sample", 40)
            seen.append((losses(r), r.out.split("--- sample")[1].split("---\n")[0], read(f"{d}/c{threads}")))
        assert len(seen[0][0]) == 8
        assert all(s == seen[0] for s in seen), dtype
    again = run("--steps", 8, "--dtype", "bf16", "--sample", 40)
    assert losses(again) == seen[0][0]


def case_the_loss_falls_in_f32_and_bf16(d):
    last = {}
    for dtype in ("f32", "bf16"):
        values = [float(line.split()[3]) for line in losses(run("--steps", 60, "--dtype", dtype))]
        assert 5.3 < values[0] < 5.8 and values[-1] < 3.6, values
        last[dtype] = sum(values[-10:]) / 10
    assert abs(last["f32"] - last["bf16"]) < 0.05, last


def case_resume_continues_with_the_same_bits(d):
    for dtype in ("f32", "bf16"):
        whole = run("--steps", 20, "--dtype", dtype, "--checkpoint", f"{d}/whole", "--svg", f"{d}/whole.svg")
        first = run("--steps", 20, "--dtype", dtype, "--checkpoint", f"{d}/part", "--stop-after", 7)
        assert "stopped after step 7 of 20" in first.out
        rest = run("--resume", f"{d}/part", "--checkpoint", f"{d}/part", "--svg", f"{d}/part.svg", "--threads", 1)
        assert losses(first) + losses(rest) == losses(whole)
        assert read(f"{d}/part") == read(f"{d}/whole")
        assert read(f"{d}/part.svg") == read(f"{d}/whole.svg")
        done = run("--resume", f"{d}/part", "--sample", 30)
        assert not losses(done) and "--- sample" in done.out
        run("--steps", 20, "--dtype", dtype, "--checkpoint", f"{d}/same", "--stop-after", 3)
        options = [o for o in command("--resume", f"{d}/same") if o not in ("--checkpoint",)]
        options.remove("")  # its value
        assert subprocess.run(options, capture_output=True).returncode == 0 and read(f"{d}/same") == read(f"{d}/whole")


def wait_for_steps(process, steps):
    lines = []
    while len(lines) < steps:
        line = process.stdout.readline()
        assert line, "the run ended early"
        if line.startswith("step "):
            lines.append(line.strip())
    return lines


def case_a_killed_run_loses_at_most_the_steps_since_the_last_checkpoint(d):
    whole = run("--steps", 400, "--checkpoint", f"{d}/whole")
    for trial in range(3):
        at = f"{d}/killed{trial}"
        p = subprocess.Popen(command("--steps", 400, "--checkpoint", at, "--checkpoint-every", 2), stdout=subprocess.PIPE, text=True, bufsize=1)
        wait_for_steps(p, 20 + 30 * trial)
        p.kill()
        seen = 20 + 30 * trial + sum(line.startswith("step ") for line in p.stdout)
        p.wait()
        rest = run("--resume", at, "--checkpoint", at)
        assert losses(rest) == losses(whole)[-len(losses(rest)):]
        assert 400 - len(losses(rest)) >= seen - 2, f"{seen} steps were seen, {400 - len(losses(rest))} were kept"
        assert read(at) == read(f"{d}/whole")
        assert not os.path.exists(at + ".partial")


def case_signals_save_and_stop(d):
    whole = run("--steps", 500, "--checkpoint", f"{d}/whole")
    for sig in (signal.SIGINT, signal.SIGTERM):
        p = subprocess.Popen(command("--steps", 500, "--checkpoint", f"{d}/part", "--svg", f"{d}/part.svg"), stdout=subprocess.PIPE, text=True)
        wait_for_steps(p, 10)
        p.send_signal(sig)
        rest = p.stdout.read()
        assert p.wait() == 130, p.returncode
        assert "stopped after step" in rest and f"--resume {d}/part" in rest
        xml.dom.minidom.parse(f"{d}/part.svg")
        run("--resume", f"{d}/part", "--checkpoint", f"{d}/part")
        assert read(f"{d}/part") == read(f"{d}/whole")


def case_nonsense_is_refused_in_one_line(d):
    write = lambda name, data: open(f"{d}/{name}", "wb").write(data)
    write("short.txt", b"too short")
    write("binary", bytes(range(256)) * 10)
    write("empty", b"")
    run("--steps", 2, "--checkpoint", f"{d}/good")
    write("other.txt", b"another text, long enough to train on. " * 50)
    for fragment, *options in [
        ("--preset 'huge' is not one of tiny small", "--preset", "huge"),
        ("layers is 0", "--layers", 0), ("--layers: ", "--layers", "many"), ("--layers: ", "--layers", "99999999999999999999"),
        ("width is 33", "--width", 33), ("heads is 4: must be a multiple of kv_heads, 3", "--kv-heads", 3),
        ("steps is 0", "--steps", 0), ("batch is -1", "--batch", -1), ("lr is -1", "--lr", -1), ("lr is nan", "--lr", "nan"), ("lr is inf", "--lr", "inf"),
        ("dtype is f16", "--dtype", "f16"), ("--dtype", "--dtype", "float"), ("--tied", "--tied", "maybe"), ("seed is -1", "--seed", -1),
        ("--threads is -1", "--threads", -1), ("--threads is 100000", "--threads", 100000), ("--sample is -1", "--sample", -1),
        ("--temperature is nan", "--temperature", "nan"), ("--prompt is empty", "--prompt", ""), ("--stop-after is -2", "--stop-after", -2),
        ("--checkpoint-every is -1", "--checkpoint-every", -1),
        ("are free: choose a smaller preset", "--layers", 1000, "--width", 65536, "--heads", 1024, "--hidden", 1048576),
        ("are free: choose a smaller preset", "--batch", 1000000, "--context", 1000),
        ("it is a directory", "--checkpoint", d), ("not a regular file", "--checkpoint", "/dev/full"), ("No such file", "--checkpoint", f"{d}/no/such"),
        ("not a regular file", "--svg", "/dev/full"), ("No such file", "--save-init", f"{d}/no/such"),
        ("No such file", "--resume", f"{d}/absent"), ("it is a directory", "--resume", d), ("malformed safetensors file", "--resume", TEXT),
        ("--preset does not go with --resume", "--resume", f"{d}/good", "--preset", "small"),
        ("--lr 0.5 contradicts", "--resume", f"{d}/good", "--lr", "0.5"), ("--steps 9 contradicts", "--resume", f"{d}/good", "--steps", 9),
        ("is not the text that", "--resume", f"{d}/good", "--data", f"{d}/other.txt"),
    ]:
        refused(fragment, *options)
    for fragment, data in [("No such file", f"{d}/absent"), ("it is a directory", d), ("has 9 bytes", f"{d}/short.txt"), ("NUL byte", f"{d}/binary"),
                           ("the text is empty", f"{d}/empty"), ("not a regular file", "/dev/zero")]:
        refused(fragment, data=data)
    run("--resume", f"{d}/good", "--lr", "0.01", "--steps", 2)  # the same settings said again
    for options in (["--no-such-option"], ["--device", "tpu"], ["--layers"]):
        r = run(*options, code=2)
        assert r.err.count("\n") == 1, r.err


def case_damaged_checkpoints_are_refused(d):
    run("--steps", 3, "--checkpoint", f"{d}/good", "--dtype", "bf16")
    good = read(f"{d}/good")
    header = struct.unpack("<Q", good[:8])[0]
    random.seed(1)
    cuts = [0, 1, 7, 8, 9, 8 + header - 1, 8 + header, len(good) - 1] + [random.randrange(len(good)) for _ in range(10)]
    flips = [random.randrange(8) for _ in range(4)] + [8 + random.randrange(header) for _ in range(60)] + [random.randrange(8 + header, len(good)) for _ in range(20)]
    for n in cuts:
        open(f"{d}/bad", "wb").write(good[:n])
        refused(f"'{d}/bad'", "--resume", f"{d}/bad")
    for at in flips:
        bad = bytearray(good)
        bad[at] ^= 1 << random.randrange(8)
        open(f"{d}/bad", "wb").write(bad)
        r = run("--resume", f"{d}/bad", code=1)
        assert r.err.count("\n") == 1, r.err
    # Whole and well-formed, but another program's.
    names = json.loads(good[8:8 + header])
    del names["__metadata__"]
    text = json.dumps(names).encode()
    open(f"{d}/bad", "wb").write(struct.pack("<Q", len(text)) + text + good[8 + header:])
    refused("not a checkpoint of this program", "--resume", f"{d}/bad")


def limit_file_size(n):
    resource.setrlimit(resource.RLIMIT_FSIZE, (n, n))


def case_a_full_disk_ends_the_run_and_keeps_the_last_checkpoint(d):
    run("--steps", 10, "--checkpoint", f"{d}/c", "--stop-after", 4)
    good = read(f"{d}/c")
    refused("File too large", "--resume", f"{d}/c", "--checkpoint", f"{d}/c", preexec_fn=lambda: limit_file_size(len(good) // 2))
    assert read(f"{d}/c") == good and not os.path.exists(f"{d}/c.partial")
    small = f"{d}/small"
    os.mkdir(small)
    if subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={len(good) + len(good) // 2}", "none", small], capture_output=True).returncode != 0:
        print("  (no right to mount a small file system: that part was left out)")
        return
    try:
        run("--steps", 10, "--checkpoint", f"{small}/c", "--stop-after", 4)
        refused("No space left", "--resume", f"{small}/c", "--checkpoint", f"{small}/c")
        assert read(f"{small}/c") == good
    finally:
        subprocess.run(["umount", small], check=True)


def case_a_loss_that_is_not_finite_ends_the_run(d):
    r = run("--steps", 60, "--lr", 100, "--clip", 0, "--lr-floor", 1, "--warmup", 0, "--beta1", 0, "--beta2", 0, "--adam-eps", 1, "--checkpoint", f"{d}/c", code=1)
    assert r.err.count("\n") == 1 and "the loss of step" in r.err and "--lr" in r.err, r.err
    assert not os.path.exists(f"{d}/c")


def case_a_terminal_gets_a_bar_and_a_pipe_gets_lines(d):
    parent, child = pty.openpty()
    p = subprocess.Popen(command("--steps", 30), stdout=child, stderr=subprocess.PIPE)
    os.close(child)
    shown = b""
    while True:
        try:
            piece = os.read(parent, 4096)
        except OSError:
            break
        if not piece:
            break
        shown += piece
    assert p.wait() == 0, p.stderr.read()
    shown = shown.decode()
    assert "30/30" in shown and "tokens/s" in shown and "left" in shown and "\r[" in shown and "\nstep " not in shown, shown
    plain = run("--steps", 30)
    assert len(losses(plain)) == 30 and "\r" not in plain.out and "\x1b" not in plain.out


def case_report_and_files(d):
    r = run("--steps", 12, "--checkpoint", f"{d}/c", "--svg", f"{d}/c.svg", "--sample", 50, "--save-init", f"{d}/i", "--save-gradients", f"{d}/g")
    for fragment in ("parameters, f32", "held out", "12 steps of 72 tokens, 2 threads", "trained 12 steps", "held-out loss", f"checkpoint: {d}/c", f"loss curve: {d}/c.svg",
                     "--- sample", "gemm.cpu", "flash_sdpa.cpu", "fused_linear_cross_entropy.cpu", "adamw.cpu", "accumulator f32, deterministic"):
        assert fragment in r.out, fragment
    xml.dom.minidom.parse(f"{d}/c.svg")
    header = lambda path: json.loads(read(path)[8:8 + struct.unpack("<Q", read(path)[:8])[0]])
    weights = {k for k in header(f"{d}/i") if k != "__metadata__"}
    assert weights == {k for k in header(f"{d}/g") if k != "__metadata__"}
    checkpoint = header(f"{d}/c")
    assert {w for k in weights for w in (k, "adam.m." + k, "adam.v." + k)} | {"train.losses", "train.held_out", "__metadata__"} == set(checkpoint)
    assert checkpoint["__metadata__"]["step"] == "12" and checkpoint["__metadata__"]["settings.width"] == "32"
    assert checkpoint["train.losses"]["shape"] == [12]
    a, b = (run("--resume", f"{d}/c", "--sample", 60, "--temperature", t).out for t in ("0", "0"))
    assert a == b
    long = run("--resume", f"{d}/c", "--sample", 100).out  # four contexts long
    assert len(long.split("--- sample")[1]) > 100


def main():
    cases = {name.removeprefix("case_"): f for name, f in globals().items() if name.startswith("case_")}
    failed = 0
    for name in sys.argv[3:] or cases:
        start = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="baracuda_train_") as d:
            try:
                cases[name](d)
                result = "ok    "
            except Exception as e:  # one case that fails must not hide the others
                failed += 1
                result = f"FAILED ({type(e).__name__}: {e})\n      "
        print(f"{result} {name} ({time.monotonic() - start:.1f} s)", flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
