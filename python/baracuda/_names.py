"""From the registry's JSON to the functions of baracuda.ops: one per op, and one per kind of an op with a field `kind`.

Used by the module itself and by tools/make_stubs.py, so that the stubs cannot differ from it.
"""
import keyword

SUFFIX = "_backward"


def safe(name):
    return name + "_" if keyword.iskeyword(name) or name in ("None", "True", "False") else name


def functions(registry):
    """{function name: (op, kind or None)}; a name of an op goes before a kind's, a kind that two ops have gets no function."""
    table = {safe(op["name"]): (op, None) for op in registry}
    kinds = {}
    for op in registry:
        suffix = SUFFIX if op["name"].endswith(SUFFIX) else ""
        for field in op["fields"]:
            if field["name"] == "kind":
                for kind in field.get("values", []):
                    kinds.setdefault(safe(kind + suffix), []).append((op, kind))
    for name, found in kinds.items():
        if name not in table and len(found) == 1:
            table[name] = found[0]
    return dict(sorted(table.items()))


def inputs(op):
    """Arguments that come first, by position: what the op reads."""
    return [a for a in op["args"] if a["role"] in ("in", "inout")]


def others(op):
    """Arguments by keyword: optional inputs, numbers, outputs."""
    return [a for a in op["args"] if a["role"] not in ("in", "inout")]
