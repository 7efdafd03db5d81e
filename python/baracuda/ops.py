"""One function per op, and per kind of an op: ops.exp(x), ops.cumsum(x, axis=1), ops.rms_norm(x, weight=w, rstd=True).

Made from the library's registry. Inputs come first, in the op's order; fields, optional inputs and numbers are keywords,
as `baracuda ops NAME` lists them. Fields that follow from the tensors (dtype, shape, sizes) may be left out. Outputs are made
in the framework and on the device of the first tensor and returned, one or a tuple in the op's order; an output given by its name is written
in place, an optional one is made where it is given as True. Plans are kept, so that a repeated call selects nothing.
"""
import functools
import json
import operator

from . import _arrays, _baracuda, _infer, _names
from ._plan import Plan

REGISTRY = json.loads(_baracuda.ops_json())


@functools.lru_cache(maxsize=1024)
def _plan(op, device, fields):
    return Plan(op, device=device, **dict(fields))


def _hashable(value):
    if isinstance(value, (list, tuple)):
        return tuple(operator.index(v) for v in value)
    try:
        hash(value)
        return value
    except TypeError:
        return value.item()


def _function(name, op, kind):
    by_position = [a["name"] for a in _names.inputs(op)]
    types = {a["name"]: a["type"] for a in op["args"]}
    roles = {a["name"]: a["role"] for a in op["args"]}
    known = {f["name"] for f in op["fields"]}

    def call(*tensors, **keywords):
        if len(tensors) > len(by_position):
            raise TypeError(f"{name}() takes {len(by_position)} tensors ({', '.join(by_position)}), got {len(tensors)}")
        args = dict(zip(by_position, tensors))
        fields = {} if kind is None else {"kind": kind}
        for key, value in keywords.items():
            if key in args:
                raise TypeError(f"{name}() got two values for {key}")
            # A word that is both: a tensor is the argument, plain values are the field.
            plain = value is None or isinstance(value, (bool, int, float, str, tuple)) or (isinstance(value, list) and types.get(key) != "tensors")
            if key in types and not (key in known and plain):
                args[key] = value
            elif key in known:
                fields[key] = value
            else:
                raise TypeError(f"{name}() has no argument or field '{key}'; fields: {' '.join(sorted(known))}; arguments: {' '.join(types)}")
        args = {key: list(value) if types[key] == "tensors" and isinstance(value, tuple) else value for key, value in args.items()}
        seen, like, device = {}, None, None
        for key, value in args.items():
            if types[key] not in ("tensor", "tensors") or value is None or isinstance(value, bool):
                continue
            pieces = value if isinstance(value, list) else [value]
            if not pieces or isinstance(pieces[0], list):
                continue
            described = [_arrays.describe(piece, f"{op['name']}: {key}") for piece in pieces]
            seen[key] = *described[0][:2], [shape for _, shape, _ in described]
            like, device = like or _arrays.framework(pieces[0]), device or described[0][2]
        read = {key: value for key, value in seen.items() if roles[key] not in ("out", "optional out")} or seen
        fields = {**_infer.fields(op, read, fields), **fields}
        plan = _plan(op["name"], device or "cpu", tuple((key, _hashable(value)) for key, value in fields.items()))
        return plan(like=like or "numpy", **args)

    call.__name__ = call.__qualname__ = name
    call.__doc__ = op["summary"] if kind is None else f"{op['name']} with kind={kind}: {op['summary']}"
    return call


_FUNCTIONS = _names.functions(REGISTRY)
globals().update({_name: _function(_name, *_entry) for _name, _entry in _FUNCTIONS.items()})
__all__ = list(_FUNCTIONS)
