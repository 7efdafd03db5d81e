"""Plan: any op's plan, from keyword fields."""
import operator
from typing import NamedTuple, Optional

from . import _arrays, _baracuda
from .errors import InvalidProblem


class Argument(NamedTuple):
    """What a plan takes for an argument. dtype or shape is None where the descriptor leaves it open; count is of the tensors that
    it asks for in a list, 1 where any number will do."""
    name: str
    role: str
    type: str
    presence: str
    dtype: Optional[str]
    shape: Optional[tuple]
    count: int


def field_text(value):
    """A field's value as the library reads it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (str, int)):
        return str(value)
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, type):
        return _arrays.dtype_name(value)
    if isinstance(value, (tuple, list)):
        return ",".join(str(operator.index(v)) for v in value)
    if hasattr(value, "__index__"):
        return str(value.__index__())
    if hasattr(value, "__float__") and not hasattr(value, "dtype"):
        return repr(float(value))
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        return field_text(value.item())
    return _arrays.dtype_name(value)


class Plan:
    """Plan("rms_norm", dtype="f32", shape=(4, 512)): checks everything once and picks a kernel.

    preference: a dict of prefer_backend, require_backend, require_kernel, allow_nondeterministic, require_batch_invariant,
    allow_tf32, max_workspace. device: "cpu", "cuda" or "cuda:N". Plans are immutable and may be run from many threads at once.
    """

    __slots__ = ("_plan", "_arguments")

    def __init__(self, op, /, *, preference=None, device="cpu", **fields):
        settings = [(key, _arrays.NAMES.get(value, value) if isinstance(value, str) else field_text(value)) for key, value in fields.items()]
        wishes = [(key, field_text(value)) for key, value in (preference or {}).items()]
        self._plan = _baracuda.Plan(op, settings, wishes, device)
        self._arguments = None

    device = property(lambda self: self._plan.device)
    op = property(lambda self: self._plan.op)
    kernel = property(lambda self: self._plan.kernel)
    sku = property(lambda self: self._plan.sku)
    guarantee = property(lambda self: self._plan.guarantee)
    deterministic = property(lambda self: self._plan.deterministic)
    batch_invariant = property(lambda self: self._plan.batch_invariant)
    descriptor = property(lambda self: self._plan.descriptor)
    workspace_size = property(lambda self: self._plan.workspace_size)
    workspace_items = property(lambda self: self._plan.workspace_items)

    @property
    def arguments(self):
        """What the plan takes, in order."""
        if self._arguments is None:
            self._arguments = tuple(Argument(*a) for a in self._plan.arguments())
        return self._arguments

    def _exported(self, args):
        known = {a.name: a.role for a in self.arguments}
        out = {}
        for key, value in args.items():
            role = known.get(key)
            export = _arrays.writable if role and "out" in role else _arrays.exported
            if role in (None, "value") or value is None or isinstance(value, tuple):
                out[key] = value
            else:
                out[key] = [export(v) for v in value] if isinstance(value, list) else export(value)
        return out

    def can_implement(self, **args):
        """Raises what run would raise for these arguments."""
        self._plan.can_implement(self._exported(args))

    def run(self, **args):
        """Runs on the caller's tensors, where they lie: numpy, torch, anything with __dlpack__. Releases the GIL. On CUDA it queues
        on torch's current stream, without torch on the default stream."""
        if self.device == "cpu":
            self._plan.run(self._exported(args))
        else:
            stream, scratch, _keep = _arrays.queue(self.device, self.workspace_size)
            self._plan.run(self._exported(args), stream, scratch)

    def __call__(self, like="numpy", **args):
        """Like run, but makes the outputs that are not given and returns them: one, or a tuple in the op's order.

        An optional output is made where it is given as True; an argument that is read and written begins as zeros. An op
        whose outputs are all optional is asked for one of them at least.
        """
        outputs = [a for a in self.arguments if "out" in a.role and a.presence != "unused"]
        if outputs and all(a.presence == "optional" and (args.get(a.name) is None or args[a.name] is False) for a in outputs):
            raise InvalidProblem(f"{self.op}: no output is asked for; {' '.join(a.name + '=True' for a in outputs)} make one", "invalid_problem")
        made = []
        for a in self.arguments:
            wanted = args.get(a.name)
            if a.type != "tensor" or "out" not in a.role:
                continue
            if wanted is True or (wanted is None and a.presence == "required"):
                if a.presence == "unused":
                    raise InvalidProblem(f"{self.op}: {a.name} is not an output of this plan", "invalid_problem")
                array, finish = _arrays.make(like, a.dtype, a.shape, self.device)
                args[a.name] = array
                made.append(finish)
            elif wanted is not None and wanted is not False:
                made.append(lambda wanted=wanted: wanted)
            else:
                args.pop(a.name, None)
        self.run(**args)
        results = tuple(finish() for finish in made)
        return results[0] if len(results) == 1 else results

    def __repr__(self):
        return f"Plan({self.sku}; {self.descriptor})"
