#!/usr/bin/env python3
"""gpu_large.py LIBRARY [OP...]: tensors of more than 2^31 elements and 4 GiB on the GPU at hand.

Each op runs on ROWS rows whose elements exceed 2^31, its outputs poisoned; then the first and the last rows run alone, as tensors
of their own. A row's bits do not depend on the rows around it, so that both must agree; an index of 32 bits would show in the last."""
import sys

import torch

from baracuda_ctypes import Library

DEVICE = torch.device("cuda:0")
WIDTH = 4096
ROWS = (1 << 31) // WIDTH + 77
PART = 5


def fields(op, n):
    """Fields and tensors (shape, dtype, written) for n rows; the first axis is the rows'."""
    t, b = (n, WIDTH), torch.bfloat16
    shape = f"{n},{WIDTH}"
    return {
        "gated": (dict(dtype=b, shape=shape), dict(gate=(t, b, 0), up=(t, b, 0), y=(t, b, 1))),
        "unary": (dict(kind="exp", dtype=b, shape=shape), dict(x=(t, b, 0), y=(t, b, 1))),
        "binary": (dict(kind="mul", dtype=b, a=shape, b=shape), dict(a=(t, b, 0), b=(t, b, 0), y=(t, b, 1))),
        "cast": (dict(dtype=b, to=torch.float32, shape=shape), dict(x=(t, b, 0), y=(t, torch.float32, 1))),
        "copy": (dict(dtype=b, shape=shape), dict(x=(t, b, 0), y=(t, b, 1))),
        "rms_norm": (dict(dtype=b, shape=shape), dict(x=(t, b, 0), weight=((WIDTH,), b, 0), y=(t, b, 1))),
        "layer_norm": (dict(dtype=b, shape=shape), dict(x=(t, b, 0), weight=((WIDTH,), b, 0), bias=((WIDTH,), b, 0), y=(t, b, 1))),
        "softmax": (dict(dtype=b, shape=shape), dict(x=(t, b, 0), y=(t, b, 1))),
    }[op]


OPS = ("gated", "unary", "binary", "cast", "copy", "rms_norm", "layer_norm", "softmax")


def main():
    library = Library(sys.argv[1])
    bad = 0
    for op in sys.argv[2:] or OPS:
        torch.cuda.empty_cache()
        try:
            settings, tensors = fields(op, ROWS)
            whole = {}
            for name, (shape, dtype, out) in tensors.items():
                whole[name] = torch.full(shape, float("nan"), dtype=dtype, device=DEVICE) if out else torch.empty(shape, dtype=dtype, device=DEVICE).normal_()
            library.plan(op, DEVICE, **settings).run(**whole)
            worst = []
            for first in (0, ROWS - PART):
                part_settings, part_tensors = fields(op, PART)
                part = {}
                for name, (shape, dtype, out) in part_tensors.items():
                    rows = whole[name][first:first + PART] if len(shape) == len(tensors[name][0]) and shape[0] == PART else whole[name]
                    part[name] = torch.empty_like(rows) if out else rows.clone()
                library.plan(op, DEVICE, **part_settings).run(**part)
                torch.cuda.synchronize()
                for name, (shape, dtype, out) in part_tensors.items():
                    if out and not torch.equal(part[name].view(torch.uint8), whole[name][first:first + PART].contiguous().view(torch.uint8)):
                        worst.append(f"{name} from row {first}")
            bad += bool(worst)
            print(f"{op:12} {ROWS}x{WIDTH}: {'the rows agree' if not worst else 'OTHER BITS in ' + ', '.join(worst)}", flush=True)
        except Exception as e:  # the other ops still count
            bad += 1
            print(f"{op:12} FAILED: {e}", flush=True)
        whole = part = None
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
