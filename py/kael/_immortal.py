"""Objects that C refers to without counting it, and may until the process ends: callbacks, texts."""

from __future__ import annotations

import ctypes
from typing import TypeVar

_T = TypeVar("_T")

_count_one_more = ctypes.PYFUNCTYPE(None, ctypes.py_object)(("Py_IncRef", ctypes.pythonapi))


def immortal(value: _T) -> _T:
    """``value``, which is never freed, also not when the interpreter ends and clears every module."""
    _count_one_more(value)
    return value
