"""Tensors of other libraries: their dtypes by our names, and new tensors of the same kind as a given one."""
import sys

from . import _baracuda

NAMES = {"bool": "bool", "int8": "i8", "uint8": "u8", "int16": "i16", "uint16": "u16", "int32": "i32", "uint32": "u32", "int64": "i64",
         "uint64": "u64", "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64", "float8_e4m3fn": "f8_e4m3fn",
         "float8_e5m2": "f8_e5m2", "float8_e4m3fnuz": "f8_e4m3fnuz", "float8_e5m2fnuz": "f8_e5m2fnuz", "complex64": "c64", "complex128": "c128"}
NUMPY = {ours: theirs for theirs, ours in NAMES.items()}
# numpy has no word for these; DLPack gets the integer of the same size.
BITS = {"bf16": "uint16", "f8_e4m3fn": "uint8", "f8_e5m2": "uint8", "f8_e4m3fnuz": "uint8", "f8_e5m2fnuz": "uint8"}


def dtype_name(dtype):
    """Our name of a dtype given as our name, or as numpy's, jax's or torch's dtype."""
    if isinstance(dtype, str):
        return NAMES.get(dtype, dtype)
    word = getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype).rpartition(".")[2]
    if word not in NAMES:
        raise TypeError(f"{dtype!r} is not a dtype")
    return NAMES[word]


def _module(array):
    return type(array).__module__.partition(".")[0]


def framework(array):
    root = _module(array)
    return root if root in ("torch", "numpy") else "jax" if root in ("jax", "jaxlib") else "other"


def exported(array):
    """What the extension takes for an array: itself, or (bits, dtype) where numpy's DLPack has no word for the dtype."""
    if framework(array) == "numpy":
        if not hasattr(array, "__dlpack__"):  # a scalar
            import numpy as np
            array = np.asarray(array)
        name = NAMES.get(array.dtype.name)
        if name in BITS:
            return array.view(BITS[name]), name
    elif framework(array) == "torch":
        if array.is_conj() or array.is_neg():  # bits of a view that DLPack has no word for
            return array.detach().resolve_conj().resolve_neg()
        array = array.detach() if array.requires_grad else array
        if array.is_cuda:  # as it lies: __dlpack__ would have the default stream wait
            import torch
            return torch.utils.dlpack.to_dlpack(array)
    return array


def writable(array):
    if framework(array) == "jax":
        raise TypeError("a jax array cannot be written; leave the output out and take the one that is returned")
    if framework(array) == "torch" and (array.is_conj() or array.is_neg()):
        raise TypeError("a conjugated or negated view of torch cannot be written; give the tensor that it views")
    return exported(array)


def describe(array, name):
    """(dtype, shape, device); a refusal names the array so."""
    dtype, shape, device = _baracuda.describe_tensor(exported(array), name)
    return dtype, tuple(shape), device


def queue(device, scratch):
    """Where a call on a CUDA device goes: a stream's handle and so many bytes of scratch, as a pointer and what keeps them. Torch's
    current stream and memory in its order; without torch the default stream, and memory of the extension's."""
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return 0, 0, None
    memory = torch.empty(scratch, dtype=torch.uint8, device=device) if scratch else None
    return torch.cuda.current_stream(device).cuda_stream, memory.data_ptr() if scratch else 0, memory


def make(like, dtype, shape, device):
    """A zeroed tensor for the framework `like`: (what the extension writes, function that makes the user's tensor of it)."""
    if like == "torch":
        import torch
        t = torch.zeros(shape, dtype=getattr(torch, NUMPY[dtype]), device=device)
        return t, lambda: t
    if device != "cpu":
        raise TypeError(f"outputs on {device} are made as torch's tensors alone; give others by their names")
    if like == "jax":
        import jax
        memory = _baracuda.empty(dtype, list(shape))
        return memory, lambda: jax.dlpack.from_dlpack(memory)
    import numpy as np
    if dtype in BITS:
        if "ml_dtypes" not in sys.modules:
            try:
                import ml_dtypes  # noqa: F401  (numpy learns the dtype from it)
            except ImportError:
                raise TypeError(f"numpy needs the package ml_dtypes for {dtype}") from None
        bits = np.zeros(shape, dtype=BITS[dtype])
        array = bits.view(getattr(sys.modules["ml_dtypes"], NUMPY[dtype]))
        return (bits, dtype), lambda: array
    array = np.zeros(shape, dtype=NUMPY[dtype])
    return array, lambda: array
