"""``t[...]`` for :class:`kael.Tensor`: views by integers, slices, ``None`` and ``...``; copies of what masks
and tensors of integers pick.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from kael import _checks
from kael._apply import apply, apply_in_place, apply_view
from kael._attached import attach
from kael._errors import Error
from kael._tensor import Tensor, tensor


def _split(whole: Tensor, index: Any) -> tuple[Tensor, list[int], list[Tensor]]:
    """A view by what needs no copy, and for the rest of ``index`` the dimension of the view where each tensor
    of indices begins.
    """
    entries = [_entry(entry) for entry in (index if isinstance(index, tuple) else (index,))]
    used = sum(_dimensions_of(entry) for entry in entries)
    if used > whole.ndim:
        raise Error(
            f"{used} indices for a tensor of shape {list(whole.shape)}, expected at most {whole.ndim}"
        )
    if sum(entry is Ellipsis for entry in entries) > 1:
        raise Error("more than one ... in an index, expected one at most")
    dimension = 0
    view = whole
    dimensions: list[int] = []
    tensors: list[Tensor] = []
    for entry in entries:
        if entry is Ellipsis:
            dimension += whole.ndim - used
        elif entry is None:
            view = apply_view("unsqueeze", view, dimension)
            dimension += 1
        elif isinstance(entry, slice):
            view = _sliced(view, dimension, entry)
            dimension += 1
        elif isinstance(entry, Tensor):
            if entry.ndim == 0:  # a mask: all or nothing, along a dimension of its own
                view = apply_view("unsqueeze", view, dimension)
                entry = apply_view("unsqueeze", entry, 0)
            dimensions.append(dimension)
            tensors.append(entry)
            dimension += _dimensions_of(entry)
        else:
            view = apply_view("select", view, dimension, entry)
    return view, dimensions, tensors


def _entry(entry: Any) -> Any:
    """An entry as None, ..., a slice, an int, or a tensor: of bools or, with dimensions, of integers."""
    if entry is None or entry is Ellipsis or isinstance(entry, slice):
        return entry
    if isinstance(entry, (list, np.ndarray)):
        entry = tensor(entry, dtype="int64" if isinstance(entry, list) and not entry else None)
    if not isinstance(entry, Tensor):
        return _position(entry)
    if entry.dtype not in ("int64", "int32", "int8", "uint8", "bool"):
        raise TypeError(f"a tensor as an index must hold integers or bools, not {entry.dtype}")
    return entry.item() if entry.ndim == 0 and entry.dtype != "bool" else entry


def _dimensions_of(entry: Any) -> int:
    """How many dimensions of the tensor an entry is for."""
    if isinstance(entry, Tensor) and entry.dtype == "bool":
        return entry.ndim
    return int(entry is not None and entry is not Ellipsis)


def _position(entry: Any) -> int:
    if isinstance(entry, (bool, np.bool_)) or not (
        isinstance(entry, (int, np.integer)) or hasattr(entry, "__index__")
    ):
        raise TypeError(
            f"an index must be an integer, a slice, None, ... or a tensor, not {type(entry).__name__}"
        )
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
    view, dimensions, tensors = _split(self, index)
    return apply("index", view, dimensions, tensors) if tensors else view


def _setitem(self: Tensor, index: Any, value: Any) -> None:
    view, dimensions, tensors = _split(self, index)
    if not tensors:
        apply_in_place("copy_", view, _without_ones(value, view.ndim))
        return
    picked = max(1 if entry.dtype == "bool" else entry.ndim for entry in tensors)
    rank = view.ndim - sum(map(_dimensions_of, tensors)) + picked
    apply_in_place("index_put_", view, dimensions, tensors, _without_ones(value, rank))


def _without_ones(value: Any, rank: int) -> Any:
    """A value for a place of so many dimensions, without those of size 1 that it has in front of them."""
    while isinstance(value, Tensor) and value.ndim > rank and value.shape[0] == 1:
        value = apply_view("select", value, 0, 0)
    return value


def _iterate(self: Tensor) -> Iterator[Tensor]:
    if self.ndim == 0:
        raise TypeError("iteration over a tensor without dimensions, expected one or more")
    return (apply_view("select", self, 0, index) for index in range(self.shape[0]))


attach("__getitem__", _getitem)
attach("__setitem__", _setitem)
attach("__iter__", _iterate)
