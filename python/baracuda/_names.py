"""From the registry's JSON to the functions of baracuda.ops: one per op, and one per kind of an op with a field `kind`, named as the op is: swiglu of gated,
swiglu_backward of gated_backward, swiglu_quantize of gated_quantize.

Used by the module itself and by tools/make_stubs.py, so that the stubs cannot differ from it.
"""
import keyword

SUFFIX = "_backward"


def kinds_of(op):
    return next((tuple(f.get("values", [])) for f in op["fields"] if f["name"] == "kind"), ())


def suffix_of(op, registry):
    """What the op's name has behind that of the shortest-named op with the same kinds that it begins with."""
    kinds = kinds_of(op)
    stems = [o["name"] for o in registry if kinds and kinds_of(o) == kinds and op["name"].startswith(o["name"] + "_")]
    return op["name"].removeprefix(min(stems, key=len)) if stems else SUFFIX if op["name"].endswith(SUFFIX) else ""


def safe(name):
    return name + "_" if keyword.iskeyword(name) or name in ("None", "True", "False") else name


def functions(registry):
    """{function name: (op, kind or None)}; a name of an op goes before a kind's. Of an elementwise kind with and without
    tensors for its parameters (clamp, lerp) the one without is NAME_scalar; other kinds that two ops have get no function."""
    table = {safe(op["name"]): (op, None) for op in registry}
    kinds = {}
    for op in registry:
        suffix = suffix_of(op, registry)
        for kind in kinds_of(op):
            kinds.setdefault((kind, suffix), []).append((op, kind))
    arity = {"unary": 1, "binary": 2, "ternary": 3}
    for (kind, suffix), found in kinds.items():
        if len(found) == 2 and all(op["name"].removesuffix(SUFFIX) in arity for op, _ in found):
            scalar, *found = sorted(found, key=lambda entry: arity[entry[0]["name"].removesuffix(SUFFIX)])
            table.setdefault(f"{kind}_scalar{suffix}", scalar)
        if len(found) == 1:
            table.setdefault(safe(kind + suffix), found[0])
    return dict(sorted(table.items()))


def inputs(op):
    """Arguments that come first, by position: what the op reads."""
    return [a for a in op["args"] if a["role"] in ("in", "inout")]


def others(op):
    """Arguments by keyword: optional inputs, numbers, outputs."""
    return [a for a in op["args"] if a["role"] not in ("in", "inout")]
