"""`baracuda train` against llama_reference.py: the first losses and every gradient of step one.

  train_reference_test.py BARACUDA TEXT
Exit code 77 when the Python packages are missing: CTest then reports the test as skipped, with the reason.
"""

import subprocess
import sys
import tempfile

try:
    import llama_reference as reference
    import numpy as np
    from safetensors.numpy import load_file
except ImportError as e:
    print(f"SKIPPED: the reference needs jax, numpy and safetensors for {sys.executable}: {e}")
    sys.exit(77)

STEPS = 20
LOSS_TOLERANCE = 1e-4      # relative
GRADIENT_TOLERANCE = 1e-4  # of the gradient's norm

COMMON = "--layers 2 --width 48 --hidden 80 --context 100 --batch 2 --steps 30 --warmup 5 --threads 2".split()
CASES = {
    "grouped heads, tied": "--heads 6 --kv-heads 2 --tied true".split(),
    "one key head, untied": "--heads 3 --kv-heads 1 --tied false --clip 0.05 --seed 9".split(),
    "full heads, no clipping": "--heads 2 --kv-heads 2 --tied false --clip 0 --weight-decay 0.5 --seed 5".split(),
}


def compare(name, options, baracuda, text, folder):
    init, gradients = f"{folder}/init.safetensors", f"{folder}/gradients.safetensors"
    command = [baracuda, "train", *COMMON, *options, "--data", text, "--stop-after", str(STEPS), "--save-init", init,
               "--save-gradients", gradients, "--checkpoint", "", "--svg", "", "--sample", "0"]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        print(f"FAILED {name}: {' '.join(command)}: exit code {run.returncode}\n{run.stdout}{run.stderr}")
        return False
    ours = [float(line.split()[3]) for line in run.stdout.splitlines() if line.startswith("step ")]
    theirs, expected = reference.train(init, text, STEPS)
    ok = len(ours) == STEPS
    loss_error = max(abs(a - b) / abs(b) for a, b in zip(ours, theirs))
    ok &= loss_error <= LOSS_TOLERANCE
    got = load_file(gradients)
    ok &= got.keys() == expected.keys()
    worst, worst_name = 0.0, "none"
    for key in expected:
        assert np.linalg.norm(expected[key]) > 0, key
        error = np.linalg.norm(got[key].astype(np.float64) - expected[key]) / np.linalg.norm(expected[key])
        if not error <= worst:
            worst, worst_name = error, key
    ok &= worst <= GRADIENT_TOLERANCE
    print(f"{'ok' if ok else 'FAILED'} {name}: {len(ours)} losses {ours[0]:.4f} to {ours[-1]:.4f}, largest relative error {loss_error:.2e}; "
          f"{len(got)} gradients, largest error {worst:.2e} of its norm ({worst_name})")
    return ok


def main():
    baracuda, text = sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder:
        results = [compare(name, options, baracuda, text, folder) for name, options in CASES.items()]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
