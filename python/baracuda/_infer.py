"""What a call of an op tells about its descriptor: fields that follow from the tensors that are given.

The library knows the rules that hold for every op (dtype, shape, dtypes of arguments); the table here holds the ops whose
fields are sizes. A field that is given always wins.
"""
from . import _baracuda


def _gemm(t, f):
    a, b = t["a"][1], t["b"][1]
    ta, tb = f.get("trans_a", False), f.get("trans_b", False)
    out = {"batch": a[:-2], "m": a[-1 if ta else -2], "k": a[-2 if ta else -1], "n": b[-2 if tb else -1]}
    if "bias" in t:
        out["bias"] = "row"
    return out


def _table(t, f):
    return {"vocabulary": t["weight"][1][0], "width": t["weight"][1][1]}


def _table_gradient(t, f):
    out = {"width": t["dy"][1][-1]}
    if "dweight" in t:
        out["vocabulary"] = t["dweight"][1][0]
    elif "vocabulary" not in f:  # its default, no rows, would be an answer
        raise TypeError("embedding_backward() takes vocabulary, the rows of dweight, or dweight")
    return out


def _cross_entropy(t, f):
    return {"tokens": t["logits"][1][0], "classes": t["logits"][1][1]}


def _fused_loss(t, f):
    return {"tokens": t["x"][1][0], "hidden": t["x"][1][1], "classes": t["w"][1][0], "bias": "bias" in t}


def _attention(t, f):
    q, k, v = t["q"][1], t["k"][1], t["v"][1]
    if len(q) == 3:  # varlen: q_len and k_len are the caller's
        out = {"varlen": True, "total_q": q[0], "heads": q[1], "head_dim": q[2], "total_k": k[0], "kv_heads": k[1], "head_dim_v": v[2]}
        if "cu_seqlens_q" in t:
            out["batch"] = t["cu_seqlens_q"][1][0] - 1
    else:
        out = {"batch": q[0], "heads": q[1], "q_len": q[2], "head_dim": q[3], "kv_heads": k[1], "k_len": k[2], "head_dim_v": v[3]}
    if "bias" in t:
        out["bias_shape"] = t["bias"][1]
    if "alibi_slopes" in t:
        out["alibi"] = True
    return out


def _kv_cache(t, f):
    k, cache = t["k"][1], t["k_cache"][1]
    return {"batch": k[0], "heads": k[1], "tokens": k[2], "head_dim": k[3], "value_dim": t["v"][1][3], "capacity": cache[2]}


def _concat(t, f):
    pieces, axis = t["x"][2], f.get("axis", 0)
    whole = list(pieces[0])
    whole[axis] = sum(piece[axis] for piece in pieces)
    return {"shape": whole}


def _update(t, f):
    return {"size": t["update"][1]}


def _penalty(t, f):
    out = {"length": t["tokens"][1][-1]}
    if "prompt" in t:
        out["prompt_length"] = t["prompt"][1][-1]
    return out


def _power_values(t, f):
    return {"dtype": "f32"}


def _packed_values(t, f):
    return {"dtype": "f32", "shape": [*t["x"][1][:-1], 2 * t["x"][1][-1]]}


TABLE = {"gemm": _gemm, "embedding": _table, "embedding_backward": _table_gradient, "cross_entropy": _cross_entropy,
         "cross_entropy_backward": _cross_entropy, "fused_linear_cross_entropy": _fused_loss, "flash_sdpa": _attention,
         "flash_sdpa_backward": _attention, "kv_cache_append": _kv_cache, "concat": _concat, "update_slice": _update,
         "dynamic_update_slice": _update, "token_penalty": _penalty, "cast_from_e8m0": _power_values,
         "cast_from_packed": _packed_values}


def fields(op, tensors, given):
    """op: the registry's entry; tensors: {argument: (dtype and shape, of a list those of its first; shapes of the whole
    list)}; given: the fields of the call."""
    known = {f["name"] for f in op["fields"]}
    found = _baracuda.infer(op["name"], [(name, dtype, list(shape)) for name, (dtype, shape, _) in tensors.items()])
    if op["name"] in TABLE:
        try:
            found.update(TABLE[op["name"]](tensors, given))
        except (IndexError, KeyError):
            pass  # a rank that is wrong: the op's own words are better
    if op["name"] == "binary_backward" and given.get("kind") in ("complex", "polar"):  # dtype is that of the parts, dy is complex
        found["dtype"] = {"c64": "f32", "c128": "f64"}.get(found.get("dtype"), found.get("dtype"))
    if op["name"] == "unary_backward" and given.get("kind") in ("real", "imag") and "x" not in tensors:  # of complex numbers, dy is real
        found["dtype"] = {"f32": "c64", "f64": "c128"}.get(found.get("dtype"), found.get("dtype"))
    return {key: value for key, value in found.items() if key in known and key not in given}
