"""What the library refuses, as exceptions with the library's own text."""


class Error(RuntimeError):
    """code: the library's name of the error; needed, got: bytes, where something was too small."""

    def __init__(self, message, code="backend_failure", needed=0, got=0):
        super().__init__(message)
        self.code, self.needed, self.got = code, needed, got


class InvalidProblem(Error, ValueError):
    """A wrong descriptor or argument: fix the call."""


class Unsupported(Error, NotImplementedError):
    """Nothing wrong, but no kernel of this build does it."""


def make(code, message, needed, got):
    kind = {"invalid_problem": InvalidProblem, "misaligned_operand": InvalidProblem, "unsupported": Unsupported}.get(code, Error)
    return kind(message, code, needed, got)
