"""The one error type of kael.

Rule for everything in this package: a value of the wrong *type* is a ``TypeError``, as everywhere in Python
(``True`` is not a number here); whatever else goes wrong is a :class:`Error`, with a code to branch on.
"""

from __future__ import annotations

import enum
from typing import Any

_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def one_line(text: str) -> str:
    """``text`` fit for one line of a message: a path or a name in it may hold line ends and control
    characters, which are escaped as in Python.
    """
    return text.translate(_ESCAPES)


class ErrorCode(enum.IntEnum):
    """What kind of failure an :class:`Error` reports. The values are those of ``kael_status`` in
    ``kael.h``.
    """

    INVALID_ARGUMENT = 1  #: a value outside what the function allows
    NOT_FOUND = 2  #: a file, folder or name that does not exist
    IO_ERROR = 3  #: the operating system refused to open, read, map or write
    INVALID_FILE = 4  #: content that breaks its format, or disagrees with another file
    UNSUPPORTED = 5  #: valid, but something that this build or version does not do
    OUT_OF_MEMORY = 6
    CALLBACK_FAILED = 7  #: a callback answered that it failed
    INTERNAL = 8  #: a bug in kael
    ANOMALY = 9  #: what anomaly detection was asked to find


class Error(Exception):
    """A failure in kael.

    ``str(error)`` is the whole text. An error of the native library has the form ``kael error at FILE:LINE:
    check 'CONDITION' failed: MESSAGE``; one that this package finds itself, before it calls the library, is
    ``kael error: MESSAGE``. ``message`` is the MESSAGE part, one line that names what was wrong, what was
    expected and where. ``code`` is an :class:`ErrorCode`.
    """

    __module__ = "kael"

    def __init__(
        self, message: str, code: ErrorCode = ErrorCode.INVALID_ARGUMENT, text: str | None = None
    ) -> None:
        message = one_line(message)
        super().__init__(one_line(text) if text is not None else f"kael error: {message}")
        self.message = message
        self.code = code

    def __reduce__(self) -> Any:
        return (type(self), (self.message, self.code, str(self)))


class AnomalyError(Error):
    """What :func:`kael.set_anomaly_detection` looks for was found.

    A tensor is described by a dict with ``shape``, ``dtype`` and, where detection was on when the tensor was
    seen, ``least`` and ``most`` of what is not NaN (NaN where nothing else is there), ``nans`` and
    ``infinities``, which count. A traceback shows ``details`` behind the error.
    """

    __module__ = "kael"

    operation: str  #: the node of the graph, as in ``"SqrtBackward"``; of a forward check ``"sqrt"``
    inside: str  #: the operator that called it, as in ``"mse_loss"``; ``""`` where there is none
    call_site: str  #: ``"FILE:LINE"`` of the call in the forward pass; ``""`` where it was not recorded
    in_forward: bool  #: found in the result of an operator; else in a gradient
    operands: list[dict[str, Any]]  #: the tensors that the operator was applied to
    taken: dict[str, Any] | None  #: the gradient that the node took; None in a forward check
    output: int  #: the operand whose gradient, or the result, it was found in
    found: dict[str, Any]  #: that gradient or result
    first_bad_index: tuple[int, ...]  #: where in it, in row-major order
    creators: list[tuple[str, str]]  #: (node, call site) whose backward pass recorded the node, and so on
    details: str  #: all of that in a few lines

    def __init__(self, message: str, code: ErrorCode, text: str, anomaly: dict[str, Any]) -> None:
        super().__init__(message, code, text)
        self._anomaly = anomaly
        self.operation = anomaly["operation"]
        self.inside = anomaly["inside"]
        self.call_site = anomaly["call_site"]
        self.in_forward = anomaly["in_forward"]
        self.operands = [_summary(operand) for operand in anomaly["operands"]]
        self.taken = anomaly["taken"] and _summary(anomaly["taken"])
        self.output = anomaly["output"]
        self.found = _summary(anomaly["found"])
        self.first_bad_index = tuple(anomaly["first_bad_index"])
        self.creators = [(creator["node"], creator["call_site"]) for creator in anomaly["creators"]]
        self.details = anomaly["text"].rstrip("\n")
        self.add_note(self.details)

    def __reduce__(self) -> Any:
        return (type(self), (self.message, self.code, str(self), self._anomaly))


def _summary(tensor: dict[str, Any]) -> dict[str, Any]:
    summary = {**tensor, "shape": tuple(tensor["shape"])}
    for key in ("least", "most"):
        if key in tensor:
            summary[key] = float(tensor[key])
    return summary


ErrorCode.__module__ = "kael"
