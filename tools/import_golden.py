#!/usr/bin/env python3
"""Writes the fixtures of tests/golden from samples of PyTorch's operators and JAX's primitives.

usage: tools/import_golden.py FOLDER [FAMILY...]

FOLDER holds opinfo_f32, opinfo_bf16, lax (json.gz and safetensors) and opinfo_errors.json.gz: sample inputs, outputs, incoming
gradients and the gradients that autograd returns. tests/golden/FAMILY.ops names the operators of a family, a JAX primitive as
lax.NAME; they are copied to FAMILY_{f32,bf16,lax}.{json,safetensors} and FAMILY_errors.json, with tensors renumbered. A name
that FOLDER lacks is an error. Output is the same for the same input.
"""
import ast
import gzip
import json
import pathlib
import struct
import sys

ELEMENT_BYTES = {"F64": 8, "I64": 8, "U64": 8, "F32": 4, "I32": 4, "U32": 4, "F16": 2, "BF16": 2, "I16": 2, "U16": 2, "I8": 1, "U8": 1, "BOOL": 1}


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
        strides = value.get("strides")
        if strides is None:
            strides, step = [], 1
            for n in reversed(value["shape"]):
                strides.insert(0, step)
                step *= n
        tensor = {"t": str(len(self.taken) - 1), "strides": strides}
        if value.get("grad"):
            tensor["grad"] = True
        if value["dtype"].startswith("complex"):
            tensor["complex"] = value["dtype"]
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


def value_of(printed):
    try:
        return ast.literal_eval(printed)
    except (ValueError, SyntaxError):
        return printed


def lax_case(case):
    """A JAX sample in the form of the others: the first argument is the input, parameters are keywords."""
    return {"name": case["name"], "input": case["args"][0] if case["args"] else None, "args": {"list": case["args"][1:]},
            "kwargs": {k: value_of(v) for k, v in case["params"].items() if not v.startswith("<function")}, "out": case["out"]}


def has_tensor(value):
    if isinstance(value, dict):
        return "t" in value or "tensor" in value or any(has_tensor(v) for v in value.values())
    return isinstance(value, list) and any(has_tensor(v) for v in value)


def takes_tensors(cases):
    return any(has_tensor([c["input"], c["args"], c["kwargs"]]) for c in cases)


def with_keywords(case, makes):
    """What stands in front and is no tensor, as keyword: input of an operator that makes tensors, or input0, input1, ... of a list of tensors."""
    first = case["input"]
    listed = isinstance(first, dict) and "list" in first and has_tensor(first)
    if first is None or not (listed or makes):
        return case
    kwargs = {f"input{i}": v for i, v in enumerate(first["list"])} if listed else {"input": first}
    return {**case, "input": None, "kwargs": {**kwargs, **case["kwargs"]}}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    to = pathlib.Path(__file__).resolve().parent.parent / "tests" / "golden"
    families = sys.argv[2:] or sorted(f.stem for f in to.glob("*.ops"))
    with gzip.open(folder / "opinfo_errors.json.gz") as f:
        errors = json.load(f)
    makers = set()
    for family in families:
        names = (to / f"{family}.ops").read_text().split()
        if len(names) != len(set(names)):
            sys.exit(f"{family}.ops names an operator twice")
        for kind, stem in (("f32", "opinfo_f32"), ("bf16", "opinfo_bf16"), ("lax", "lax")):
            samples = Samples(folder / stem)
            if kind == "lax":
                source = f"JAX {samples.json['jax']} primitive samples"
                have = {f"lax.{k}": [lax_case(c) for c in v] for k, v in samples.json["primitives"].items()}
            else:
                source = f"PyTorch {samples.json['torch']} operator samples"
                have = {k: v["cases"] for k, v in samples.json["ops"].items()}
            wanted = [n for n in names if n.startswith("lax.") == (kind == "lax")]
            makers |= {n for n in wanted if n in have and not takes_tensors(have[n])}
            missing = [n for n in wanted if n not in have]
            if missing and kind != "bf16":  # some operators have no bf16 samples
                sys.exit(f"{stem} lacks {' '.join(missing)}")
            ops = {n: [samples.renumber(with_keywords(c, n in makers)) for c in have[n]] for n in wanted if n in have}
            files = [to / f"{family}_{kind}.json", to / f"{family}_{kind}.safetensors"]
            if not ops:
                for f in files:
                    f.unlink(missing_ok=True)
                continue
            write_json(files[0], source, ops)
            samples.write_tensors(files[1])
            print(f"{family} {kind}: {len(ops)} operators, {sum(map(len, ops.values()))} samples, {len(samples.taken)} tensors")
        ops = {n: [with_keywords(c, n in makers) for c in errors["ops"][n]] for n in names if n in errors["ops"]}
        if ops:
            write_json(to / f"{family}_errors.json", f"PyTorch {errors['torch']} error samples", ops)
            print(f"{family} errors: {len(ops)} operators, {sum(map(len, ops.values()))} samples")
        else:
            (to / f"{family}_errors.json").unlink(missing_ok=True)
    print(f"{sum(f.stat().st_size for f in to.glob('*.*s*')) / 1e6:.2f} MB in {to.relative_to(to.parent.parent)}")


if __name__ == "__main__":
    main()
