"""baracuda: plans for the primitives of machine learning, deterministic by default."""
from . import ops, products
from ._baracuda import __version__, set_threads, threads
from ._plan import Argument, Plan
from .errors import Error, InvalidProblem, Unsupported

__all__ = ["Argument", "Error", "InvalidProblem", "Plan", "Unsupported", "__version__", "op_names", "ops", "products", "set_threads", "threads"]


def op_names():
    """The ops of this build, in the order of the registry."""
    return [op["name"] for op in ops.REGISTRY]
