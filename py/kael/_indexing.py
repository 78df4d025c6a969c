"""``t[...]`` for :class:`kael.Tensor`: views by integers, slices, ``None`` and ``...``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kael import _checks
from kael._apply import apply_in_place, apply_view
from kael._errors import Error
from kael._tensor import Tensor


def _view(tensor: Tensor, index: Any) -> Tensor:
    entries = list(index) if isinstance(index, tuple) else [index]
    used = sum(entry is not None and entry is not Ellipsis for entry in entries)
    if used > tensor.ndim:
        raise Error(
            f"{used} indices for a tensor of shape {list(tensor.shape)}, expected at most {tensor.ndim}"
        )
    if sum(entry is Ellipsis for entry in entries) > 1:
        raise Error("more than one ... in an index")
    dimension = 0
    view = tensor
    for entry in entries:
        if entry is Ellipsis:
            dimension += tensor.ndim - used
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


def _getitem(self: Tensor, index: Any) -> Tensor:
    return _view(self, index)


def _setitem(self: Tensor, index: Any, value: Any) -> None:
    apply_in_place("copy_", _view(self, index), value)


def _iterate(self: Tensor) -> Iterator[Tensor]:
    if self.ndim == 0:
        raise TypeError("iteration over a tensor without dimensions")
    return (apply_view("select", self, 0, index) for index in range(self.shape[0]))


Tensor.__getitem__ = _getitem  # type: ignore[attr-defined]
Tensor.__setitem__ = _setitem  # type: ignore[attr-defined]
Tensor.__iter__ = _iterate  # type: ignore[attr-defined]
