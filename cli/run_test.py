#!/usr/bin/env python3
"""run_test.py BARACUDA: baracuda run on files that numpy writes and reads, .npy and .safetensors."""
import json
import os
import struct
import subprocess
import sys
import tempfile

try:
    import numpy as np
except ImportError:
    print("numpy is missing: skipped")
    sys.exit(77)

baracuda = sys.argv[1]
os.chdir(tempfile.mkdtemp())


def run(*words):
    done = subprocess.run([baracuda, "run", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


x = np.linspace(-2, 2, 12, dtype=np.float32).reshape(3, 4)
np.save("x.npy", x)
out = run("unary", "--kind", "relu", "--x", "x.npy", "-o", "y.npy")
assert "kernel unary.cpu.map" in out and "y            f32 [3, 4] -> y.npy" in out, out
np.testing.assert_array_equal(np.load("y.npy"), np.maximum(x, 0))

np.save("t.npy", np.asfortranarray(x.astype(np.float64)))  # column order is read as strides
run("unary", "kind=neg", "--x=t.npy", "-o", "n.npy")
np.testing.assert_array_equal(np.load("n.npy"), -x.astype(np.float64))

a, b = np.ones((3, 1), np.float32), np.arange(4, dtype=np.float32)  # a and b are fields too: a file is the tensor
np.save("a.npy", a), np.save("b.npy", b)
run("binary", "kind=add", "--a", "a.npy", "--b", "b.npy", "-o", "sum.npy")
np.testing.assert_array_equal(np.load("sum.npy"), a + b)

w = np.full(4, 2, np.float32)
header = json.dumps({"w": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
open("w.safetensors", "wb").write(struct.pack("<Q", len(header)) + header + w.tobytes())
run("rms_norm", "--x", "x.npy", "--weight", "w.safetensors:w", "-o", "y=out.safetensors", "-o", "rstd=out.safetensors:r")
raw = open("out.safetensors", "rb").read()
size = struct.unpack("<Q", raw[:8])[0]
entries = json.loads(raw[8:8 + size])
got = {k: np.frombuffer(raw[8 + size:][slice(*e["data_offsets"])], np.float32).reshape(e["shape"]) for k, e in entries.items() if k != "__metadata__"}
rstd = 1 / np.sqrt((x.astype(np.float64) ** 2).mean(-1) + 1e-6)
np.testing.assert_allclose(got["r"], rstd, rtol=1e-6)
np.testing.assert_allclose(got["y"], x * rstd[:, None] * 2, rtol=1e-6)

np.save("g1.npy", np.full(3, 3, np.float32)), np.save("g2.npy", np.full((2, 2), 4, np.float32))  # a list of tensors
run("global_norm", "--x", "g1.npy", "--x", "g2.npy", "-o", "norm.npy")
assert abs(np.load("norm.npy") - np.sqrt(27 + 64)) < 1e-5
print("passed")
