#!/usr/bin/env python3
"""Writes the fixtures of tests/golden from PyTorch's operator samples.

usage: tools/import_golden.py FOLDER

FOLDER holds opinfo_f32, opinfo_bf16 (json.gz and safetensors) and opinfo_errors.json.gz: for every operator of PyTorch's
OpInfo list sample inputs, outputs, incoming gradients and the gradients that autograd returns. The operators named here
are copied to opinfo_f32.{json,safetensors}, opinfo_bf16.{json,safetensors} and errors.json, with tensors renumbered. An
operator of the list that FOLDER lacks is an error. Output is the same for the same input.
"""
import gzip
import json
import pathlib
import struct
import sys

OPERATORS = """
nn.functional.scaled_dot_product_attention nn.functional.rms_norm nn.functional.cross_entropy nn.functional.embedding
nn.functional.glu nn.functional.silu nn.functional.gelu nn.functional.relu nn.functional.softplus
neg abs exp log sqrt rsqrt tanh sigmoid square reciprocal
add sub rsub mul div.no_rounding_mode true_divide maximum minimum max.binary min.binary pow
__radd__ __rsub__ __rmul__ __rdiv__ __rpow__
mm bmm matmul __rmatmul__ addmm addmm.decomposed baddbmm mv addmv dot vdot outer addr nn.functional.linear
positive clone contiguous to half bfloat16 float double fill zero_ zeros_like ones_like full_like
""".split()

ELEMENT_BYTES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2, "I16": 2, "I8": 1, "U8": 1, "BOOL": 1}


def compact(value):
    return json.dumps(value, separators=(",", ":"))


def write_json(path, source, ops):
    """One case a line, so that a change of the fixtures can be read."""
    lines = [f'{compact(name)}:[\n' + ",\n".join(compact(c) for c in cases) + "\n]" for name, cases in ops.items()]
    path.write_text('{"source":%s,"ops":{\n%s\n}}\n' % (compact(source), ",\n".join(lines)))


class Samples:
    def __init__(self, stem):
        with gzip.open(f"{stem}.json.gz") as f:
            self.json = json.load(f)
        self.data = pathlib.Path(f"{stem}.safetensors").read_bytes()
        (length,) = struct.unpack_from("<Q", self.data)
        self.header = json.loads(self.data[8:8 + length])
        self.start = 8 + length
        self.taken = []  # old keys, in the order of the new ones

    def renumber(self, value):
        if isinstance(value, list):
            return [self.renumber(v) for v in value]
        if not isinstance(value, dict):
            return value
        if "t" not in value:
            return {k: self.renumber(v) for k, v in value.items()}
        self.taken.append(value["t"])
        tensor = {"t": str(len(self.taken) - 1), "strides": value["strides"]}
        if value["grad"]:
            tensor["grad"] = True
        return tensor

    def write_tensors(self, path):
        """Larger elements first, so that every tensor is aligned to its own type."""
        order = sorted(range(len(self.taken)), key=lambda i: -ELEMENT_BYTES[self.header[self.taken[i]]["dtype"]])
        header, parts, offset = {}, [], 0
        for i in order:
            entry = self.header[self.taken[i]]
            begin, end = entry["data_offsets"]
            part = self.data[self.start + begin:self.start + end]
            header[str(i)] = {"dtype": entry["dtype"], "shape": entry["shape"], "data_offsets": [offset, offset + len(part)]}
            offset += len(part)
            parts.append(part)
        text = compact(header).encode()
        text += b" " * (-len(text) % 8)
        path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(parts))


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    to = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
    for name in ("opinfo_f32", "opinfo_bf16"):
        samples = Samples(folder / name)
        missing = [op for op in OPERATORS if op not in samples.json["ops"]]
        if missing:
            sys.exit(f"{name} lacks {' '.join(missing)}")
        ops = {op: [samples.renumber(c) for c in samples.json["ops"][op]["cases"]] for op in OPERATORS}
        write_json(to / f"{name}.json", f"PyTorch {samples.json['torch']} operator samples", ops)
        samples.write_tensors(to / f"{name}.safetensors")
        print(f"{name}: {len(ops)} operators, {sum(map(len, ops.values()))} samples, {len(samples.taken)} tensors")
    with gzip.open(folder / "opinfo_errors.json.gz") as f:
        errors = json.load(f)
    ops = {op: errors["ops"][op] for op in OPERATORS if op in errors["ops"]}
    write_json(to / "errors.json", f"PyTorch {errors['torch']} error samples", ops)
    print(f"errors: {len(ops)} operators, {sum(map(len, ops.values()))} samples")
    size = sum(f.stat().st_size for f in to.glob("opinfo_*")) + (to / "errors.json").stat().st_size
    print(f"{size / 1e6:.2f} MB in {to.relative_to(to.parent.parent)}")


if __name__ == "__main__":
    main()
