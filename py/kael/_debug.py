"""What the library did, for people: a tensor's memory, the graph below it, the backward pass as it runs, and
the operator that made the first NaN (docs/debugging.md).
"""

from __future__ import annotations

import ctypes
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, overload

from kael import _callbacks, _checks, _signatures
from kael._library import answered_text, check_status, native, text_of
from kael._tensor import Tensor


@overload
def explain(tensor: Tensor, format: Literal["text", "json"] = "text") -> str: ...
@overload
def explain(tensor: Tensor, format: Literal["dict"]) -> dict[str, Any]: ...
def explain(tensor: Tensor, format: str = "text") -> str | dict[str, Any]:
    """Memory and gradient state of a tensor: one field a line, or with ``format="json"`` or ``"dict"`` also
    whose the memory is, the mapped file and the place in it, and every tensor on the same storage
    (docs/debugging.md lists the fields).
    """
    pointer = _tensor(tensor)._owned.pointer()
    if _checks.choice("format", format, ("text", "json", "dict")) == "text":
        return answered_text(lambda *out: native().kept.kael_explain(pointer, *out))
    text = answered_text(lambda *out: native().kept.kael_explain_json(pointer, *out))
    return text if format == "json" else json.loads(text)


@overload
def autograd_graph(tensor: Tensor, saved: bool = False, format: Literal["dot", "json"] = "dot") -> str: ...
@overload
def autograd_graph(tensor: Tensor, saved: bool = False, *, format: Literal["dict"]) -> dict[str, Any]: ...
def autograd_graph(tensor: Tensor, saved: bool = False, format: str = "dot") -> str | dict[str, Any]:
    """The graph of the operators that the tensor was computed by, in Graphviz' DOT language: ``dot -Tsvg``
    draws it. Empty for a tensor that requires no gradient. ``saved`` adds what the nodes keep for their
    backward passes.

    With ``format="json"`` or ``"dict"`` the same nodes and edges as data, always with what the nodes keep
    (docs/debugging.md lists the fields).
    """
    pointer = _tensor(tensor)._owned.pointer()
    with_saved = _checks.flag("saved", saved)
    if _checks.choice("format", format, ("dot", "json", "dict")) == "dot":
        call = (
            native().released.kael_autograd_graph_saved if with_saved else native().kept.kael_autograd_graph
        )
        return answered_text(lambda *out: call(pointer, *out))
    text = answered_text(lambda *out: native().released.kael_autograd_graph_json(pointer, *out))
    return text if format == "json" else json.loads(text)


def _tensor(tensor: Any) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"a kael.Tensor is expected, not {type(tensor).__name__}")
    return tensor


# ---- The trace


_receive: Any = None


def _on_line(line: Any, length: int, _: Any) -> None:
    receive = _receive
    if receive is not None and not _callbacks.have_failed():
        _callbacks.note_failure(lambda: receive(text_of(line, length)))


_callback = _signatures.TraceCallback(_on_line)  # the only one, so that none is freed while it may be called


def set_backward_trace(output: Any, records: bool = False) -> None:
    """Sends one line for each operator that a backward pass runs, with the shape and the L2 norm of its
    gradient, to ``output``: an open text file, or a callable that takes the line. None switches it off.

    With ``records``, a callable gets a dict for each operator after it ran, and a file the same as a line of
    JSON: also what the operator returned, its bytes, how many NaN and infinities are in it, and how long it
    took (docs/debugging.md lists the fields).

    Process-wide. What ``output`` raises ends no walk: ``backward`` raises it afterwards. Tracing computes a
    norm for each operator, and is slow. ``KAEL_TRACE_BACKWARD`` in the environment traces to standard error
    from the start.
    """
    global _receive
    wants_records = _checks.flag("records", records)
    receive = None if output is None else _receiver(output, wants_records)
    none = _signatures.TraceCallback()
    lines, objects = (none, _callback) if wants_records else (_callback, none)
    kept = native().kept
    _receive = None  # neither gets what is meant for the other
    check_status(kept.kael_set_backward_trace(lines if receive is not None else none, None))
    check_status(kept.kael_set_backward_records(objects if receive is not None else none, None))
    _receive = receive


def _receiver(output: Any, records: bool) -> Callable[[str], object]:
    write = getattr(output, "write", None)
    receive = output if write is None else write
    if not callable(receive):
        raise TypeError(f"output must be a file, a callable or None, not {type(output).__name__}")
    if not records:
        return receive
    if write is None:
        return lambda text: output(_record(text))
    return lambda text: write(text + "\n")


def _record(text: str) -> dict[str, Any]:
    record = json.loads(text)
    record["norm"] = float(record["norm"])
    return record


# ---- Anomalies

_MODES = {
    "nan": _signatures.FIND_NAN,
    "inf": _signatures.FIND_INFINITY,
    "both": _signatures.FIND_NAN | _signatures.FIND_INFINITY,
}
_PACKAGE = str(Path(__file__).parent) + os.sep
_detecting = 0


def _write_call_site(text: Any, capacity: int, length: Any, _: Any) -> int:
    def write() -> None:
        frame: Any = sys._getframe(1)
        while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
            frame = frame.f_back
        place = f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None else ""
        encoded = place.encode("utf-8", "backslashreplace")[-capacity:]
        ctypes.memmove(text, encoded, len(encoded))
        length[0] = len(encoded)

    return 0 if _callbacks.note_failure(write) else 1


_call_site = _signatures.CallSiteCallback(_write_call_site)  # made once, as _callback


class set_anomaly_detection:  # used as a function
    """Makes every backward pass search each gradient for NaN (``mode="nan"``), infinities (``"inf"``) or
    ``"both"``, and fail at the first operator that made one with an :class:`kael.AnomalyError` that says all
    that is known of it: at once, process-wide, and in a ``with`` statement until its end.

    With ``check_forward``, operators on tensors fail already when their result holds one. It is slow: the
    gradients, and the operands of every recorded operator, are looked at.
    """

    def __init__(self, enabled: bool, mode: str = "nan", check_forward: bool = False) -> None:
        flags = _MODES[_checks.choice("mode", mode, _MODES)]
        if _checks.flag("check_forward", check_forward):
            flags |= _signatures.CHECK_FORWARD
        self._before = _detecting
        _detect(flags if _checks.flag("enabled", enabled) else 0)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *_: object) -> None:
        _detect(self._before)


def _detect(flags: int) -> None:
    global _detecting
    if flags:
        check_status(native().kept.kael_set_call_site(_call_site, None))
    check_status(native().kept.kael_set_anomaly_detection(flags))
    _detecting = flags
