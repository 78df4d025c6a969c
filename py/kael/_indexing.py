"""``t[...]`` for :class:`kael.Tensor`: views by integers, slices, ``None`` and ``...``; copies of the rows
that a tensor or list of integers names.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kael import _checks, _signatures
from kael._apply import apply, apply_in_place, apply_view
from kael._errors import Error, ErrorCode
from kael._tensor import Tensor, tensor

_INT64 = _signatures.DTYPES.index("int64")


def _view(whole: Tensor, index: Any) -> Tensor:
    entries = list(index) if isinstance(index, tuple) else [index]
    used = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if used > whole.ndim:
        raise Error(
            f"{used} indices for a tensor of shape {list(whole.shape)}, expected at most {whole.ndim}"
        )
    if sum(entry is Ellipsis for entry in entries) > 1:
        raise Error("more than one ... in an index")
    dimension = 0
    view = whole
    for entry in entries:
        if entry is Ellipsis:
            dimension += whole.ndim - used
        elif entry is None:
            view = apply_view("unsqueeze", view, dimension)
            dimension += 1
        elif isinstance(entry, slice):
            view = _sliced(view, dimension, entry)
            dimension += 1
        else:
            view = apply_view("select", view, dimension, _position(entry))
    return view


def _position(entry: Any) -> int:
    if isinstance(entry, (bool, np.bool_)) or not (
        isinstance(entry, (int, np.integer)) or hasattr(entry, "__index__")
    ):
        raise TypeError(f"an index must be an integer, a slice, None or ..., not {type(entry).__name__}")
    return _checks.integer("an index", entry, -_checks.INT64_MAX, _checks.INT64_MAX)


def _sliced(view: Tensor, dimension: int, entry: slice) -> Tensor:
    size = view.shape[dimension]
    start = 0 if entry.start is None else _bound("start", entry.start)
    stop = size if entry.stop is None else _bound("stop", entry.stop)
    step = 1 if entry.step is None else _bound("step", entry.step)
    return apply_view("slice", view, dimension, start, stop, step)


def _bound(name: str, value: Any) -> int:
    """A bound beyond 64 bits means the same as the nearest one within."""
    number = _checks.integer(f"the {name} of a slice", value, -(2**1000), 2**1000)
    return max(-_checks.INT64_MAX, min(number, _checks.INT64_MAX))


def _rows(self: Tensor, index: Any) -> Tensor:
    """The rows at the integers of ``index``, of any shape; negative ones count from the end."""
    wanted = index if isinstance(index, Tensor) else tensor(index, dtype=None if index else "int64")
    if wanted.dtype == "bool":
        raise Error("a mask as an index is not available, use where or masked_fill", ErrorCode.UNSUPPORTED)
    if wanted.dtype not in ("int64", "int32", "int8", "uint8"):
        raise TypeError(f"a tensor as an index must hold integers, not {wanted.dtype}")
    if self.ndim == 0:
        raise Error("an index for a tensor without dimensions")
    flat = apply("reshape", apply("to", wanted, _INT64), [-1])
    flat = apply("where", flat < 0, flat + self.shape[0], flat)
    return apply("reshape", apply("index_select", self, 0, flat), [*wanted.shape, *self.shape[1:]])


def _getitem(self: Tensor, index: Any) -> Tensor:
    return _rows(self, index) if isinstance(index, (Tensor, list)) else _view(self, index)


def _setitem(self: Tensor, index: Any, value: Any) -> None:
    apply_in_place("copy_", _view(self, index), value)


def _iterate(self: Tensor) -> Iterator[Tensor]:
    if self.ndim == 0:
        raise TypeError("iteration over a tensor without dimensions")
    return (apply_view("select", self, 0, index) for index in range(self.shape[0]))


Tensor.__getitem__ = _getitem  # type: ignore[attr-defined]
Tensor.__setitem__ = _setitem  # type: ignore[attr-defined]
Tensor.__iter__ = _iterate  # type: ignore[attr-defined]
