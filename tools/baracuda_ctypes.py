"""The C interface (c/baracuda.h) through ctypes, for torch tensors on any device: what tools on a GPU machine need, where only
the shared library was built."""
import ctypes as c

import torch

CODES = {torch.bool: (6, 8), torch.int8: (0, 8), torch.uint8: (1, 8), torch.int16: (0, 16), torch.int32: (0, 32), torch.int64: (0, 64),
         torch.float16: (2, 16), torch.bfloat16: (4, 16), torch.float32: (2, 32), torch.float64: (2, 64),
         torch.float8_e4m3fn: (10, 8), torch.float8_e5m2: (12, 8)}
NAMES = {torch.bool: "bool", torch.int8: "i8", torch.uint8: "u8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64", torch.float16: "f16",
         torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64", torch.float8_e4m3fn: "f8_e4m3fn", torch.float8_e5m2: "f8_e5m2"}


class DLDevice(c.Structure):
    _fields_ = [("type", c.c_int32), ("id", c.c_int32)]


class DLDataType(c.Structure):
    _fields_ = [("code", c.c_uint8), ("bits", c.c_uint8), ("lanes", c.c_uint16)]


class DLTensor(c.Structure):
    _fields_ = [("data", c.c_void_p), ("device", DLDevice), ("ndim", c.c_int32), ("dtype", DLDataType), ("shape", c.POINTER(c.c_int64)),
                ("strides", c.POINTER(c.c_int64)), ("byte_offset", c.c_uint64)]


class Setting(c.Structure):
    _fields_ = [("key", c.c_char_p), ("value", c.c_char_p)]


class Number(c.Union):
    _fields_ = [("i", c.c_int64), ("u", c.c_uint64), ("f", c.c_double)]


class Arg(c.Structure):
    _fields_ = [("name", c.c_char_p), ("kind", c.c_int32), ("tensors", c.POINTER(c.POINTER(DLTensor))), ("count", c.c_size_t),
                ("capacity", c.POINTER(c.c_uint64)), ("number", Number)]


class Library:
    def __init__(self, path):
        self.lib = c.CDLL(path)
        self.streams = {}
        self.lib.baracuda_last_error.restype = c.c_char_p
        self.lib.baracuda_plan_text.restype = c.c_char_p

    def check(self, code):
        if code:
            raise RuntimeError(self.lib.baracuda_last_error(None, None, None).decode())

    def stream(self, device):
        """A stream handle over torch's current one; None on the CPU."""
        if device.type == "cpu":
            return None
        key = (device.index or 0, torch.cuda.current_stream(device).cuda_stream)
        if key not in self.streams:
            s = c.c_void_p()
            self.check(self.lib.baracuda_stream_create(DLDevice(2, key[0]), c.c_void_p(key[1] or None), c.byref(s)))
            self.streams[key] = s
        return self.streams[key]

    def plan(self, op, device, preference=None, **fields):
        return Plan(self, op, device, preference or {}, fields)


def dl_tensor(t):
    shape, strides = (c.c_int64 * max(t.dim(), 1))(*t.shape), (c.c_int64 * max(t.dim(), 1))(*t.stride())
    code, bits = CODES[t.dtype]
    d = DLTensor(t.data_ptr(), DLDevice(2 if t.is_cuda else 1, t.device.index or 0), t.dim(), DLDataType(code, bits, 1), shape, strides, 0)
    return d, (shape, strides)


def field_text(v):
    if isinstance(v, torch.dtype):
        return NAMES[v]
    if isinstance(v, bool):
        return str(v).lower()
    return ",".join(map(str, v)) if isinstance(v, (tuple, list, torch.Size)) else str(v)


class Plan:
    def __init__(self, library, op, device, preference, fields):
        self.library, self.op, self.device = library, op, torch.device(device)
        settings = [(k, v) for k, v in fields.items() if v is not None]
        array = (Setting * max(len(settings), 1))(*[Setting(k.encode(), field_text(v).encode()) for k, v in settings])
        wishes = (Setting * max(len(preference), 1))(*[Setting(k.encode(), field_text(v).encode()) for k, v in preference.items()])
        self.handle = c.c_void_p()
        library.check(library.lib.baracuda_plan_create(op.encode(), array, len(settings), wishes, len(preference), library.stream(self.device), c.byref(self.handle)))
        size = c.c_uint64()
        library.check(library.lib.baracuda_plan_workspace_size(self.handle, c.byref(size)))
        self.workspace = torch.full((max(size.value, 1),), 255, dtype=torch.uint8, device=self.device)

    def text(self, which):
        return self.library.lib.baracuda_plan_text(self.handle, which).decode()

    def bind(self, **arguments):
        """The run on torch's current stream as a function without arguments; the tensors are kept."""
        keep, args = [arguments], []
        for name, v in arguments.items():
            if v is None:
                continue
            if isinstance(v, (torch.Tensor, list, tuple)):
                tensors = [v] if isinstance(v, torch.Tensor) else list(v)
                made = [dl_tensor(t) for t in tensors]
                pointers = (c.POINTER(DLTensor) * len(made))(*[c.pointer(d) for d, _ in made])
                keep += [made, pointers]
                args.append(Arg(name.encode(), 0, pointers, len(made), None, Number()))
            elif isinstance(v, float):
                args.append(Arg(name.encode(), 3, None, 0, None, Number(f=v)))
            else:
                args.append(Arg(name.encode(), 1, None, 0, None, Number(i=v)))
        array = (Arg * max(len(args), 1))(*args)
        run, handle, space, stream, device = self.library.lib.baracuda_plan_run, self.handle, self.workspace, self.library.stream, self.device

        def call():
            code = run(handle, stream(device), c.c_void_p(space.data_ptr()), c.c_uint64(space.numel()), array, c.c_size_t(len(args)))
            if code:
                self.library.check(code)
            return keep and None
        return call

    def run(self, **arguments):
        self.bind(**arguments)()
