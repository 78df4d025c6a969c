"""Finds, loads and checks libkael. Nothing else in the package loads a library.

The library is loaded at first use, so that ``python -m kael --help`` and tools that only read docstrings
work without it. Two views of the same library: ``native().released`` gives the interpreter lock away during a
call, ``native().kept`` holds on to it (see ``_signatures.Lock``).
"""

from __future__ import annotations

import ctypes
import importlib.resources
import json
import os
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from kael import _callbacks, _signatures
from kael._errors import AnomalyError, Error, ErrorCode

_HINT = (
    "run scripts/serve, or cmake --preset cpu && cmake --build --preset cpu, or set KAEL_LIBRARY to the file"
)


def _file_name() -> str:
    if sys.platform == "win32":
        return "kael.dll"
    return "libkael.dylib" if sys.platform == "darwin" else "libkael.so"


def _candidates() -> list[Path]:
    """Where the library may be, best first. ``KAEL_LIBRARY`` is an order, not a hint: nothing else is tried
    then.
    """
    chosen = os.environ.get("KAEL_LIBRARY")
    if chosen:
        # Absolute: the loader looks for a bare name in places of its own.
        return [Path(chosen).absolute()]
    name = _file_name()
    package = Path(__file__).resolve().parent
    candidates = [Path(str(importlib.resources.files("kael").joinpath("lib", name))), package / "lib" / name]
    checkout = package.parents[1]
    if (checkout / "native" / "include" / "kael" / "kael.h").is_file():
        candidates.append(checkout / "build" / "cpu" / name)
    return list(dict.fromkeys(candidates))


class Native:
    """The loaded library. ``released`` and ``kept`` have one attribute for each function of the header."""

    def __init__(self, path: Path) -> None:
        releasing = ctypes.CDLL(str(path))
        keeping = ctypes.PyDLL(str(path))
        _check_version(keeping, path)
        self.path = path
        self.released = SimpleNamespace()
        self.kept = SimpleNamespace()
        for name, signature in _signatures.FUNCTIONS.items():
            if signature.lock is not _signatures.Lock.KEPT:
                setattr(self.released, name, _bind(releasing, name, signature, path))
            if signature.lock is not _signatures.Lock.RELEASED:
                setattr(self.kept, name, _bind(keeping, name, signature, path))


def _check_version(library: ctypes.CDLL, path: Path) -> None:
    try:
        function = library.kael_abi_version
    except AttributeError:
        raise OSError("it is not a kael library: it has no function kael_abi_version") from None
    function.restype = ctypes.c_int32
    function.argtypes = ()
    version = function()
    if version != _signatures.ABI_VERSION:
        raise Error(
            f"{path} has version {version} of the C interface, this package was made for version "
            f"{_signatures.ABI_VERSION}: build the library and install the package from the same sources",
            ErrorCode.UNSUPPORTED,
        )


def _bind(library: ctypes.CDLL, name: str, signature: _signatures.Signature, path: Path) -> Any:
    try:
        function = getattr(library, name)
    except AttributeError:
        raise Error(
            f"{path} has no function {name}: build it again from these sources", ErrorCode.UNSUPPORTED
        ) from None
    function.restype = signature.result
    function.argtypes = signature.arguments
    return function


_lock = threading.Lock()
_native: Native | None = None


def native() -> Native:
    """The library, loaded at the first call. Any thread. Raises :class:`Error` that lists every path
    tried.
    """
    if _native is not None:
        return _native
    with _lock:
        return _native if _native is not None else _load()


def _load() -> Native:
    global _native
    tried = []
    for path in _candidates():
        if not path.is_file():
            tried.append(f"{path}: {'not a regular file' if path.exists() else 'no such file'}")
            continue
        try:
            _native = Native(path)
        except OSError as error:
            tried.append(f"{path}: {error}")
            continue
        return _native
    hint = f"correct or unset KAEL_LIBRARY; else {_HINT}" if os.environ.get("KAEL_LIBRARY") else _HINT
    raise Error(f"the library was not found ({'; '.join(tried)}); {hint}", ErrorCode.NOT_FOUND)


def text_of(pointer: Any, length: int) -> str:
    """Text of the library, for people: UTF-8, but a path in it may hold any byte."""
    return ctypes.string_at(pointer, length).decode("utf-8", "backslashreplace")


def answered_text(call: Callable[[Any, Any], int]) -> str:
    """The text that ``call`` answers with through a pointer and a length."""
    text, length = _signatures.TextPointer(), ctypes.c_int64()
    check_status(call(ctypes.byref(text), ctypes.byref(length)))
    return text_of(text, length.value)


def static_text(pointer: Any) -> str:
    """A NUL-terminated text with static storage."""
    return ctypes.string_at(pointer).decode("utf-8", "replace")


def check_status(status: int) -> None:
    """Raises the last error of this thread unless ``status`` is that of success; what a callback raised,
    where that was the cause.
    """
    if status != _signatures.OK:
        if status == _signatures.CALLBACK_FAILED:
            _callbacks.raise_failure()
        raise last_error(status)


def last_error(status: int) -> Error:
    """The library's last failure on this thread, as an exception."""
    kept = native().kept
    length = ctypes.c_int64()
    message = text_of(kept.kael_last_error_message(ctypes.byref(length)), length.value)
    text = text_of(kept.kael_last_error(ctypes.byref(length)), length.value)
    try:
        code = ErrorCode(status)
    except ValueError:
        code = ErrorCode.INTERNAL
    if code == ErrorCode.ANOMALY:
        anomaly = text_of(kept.kael_last_anomaly(ctypes.byref(length)), length.value)
        if anomaly:  # there was memory for it
            return AnomalyError(message, code, text, json.loads(anomaly))
    return Error(message, code, text)
