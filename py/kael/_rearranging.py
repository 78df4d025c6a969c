"""What puts elements elsewhere: functions of the package and methods of :class:`kael.Tensor`."""

from __future__ import annotations

from typing import Any

from kael import _checks
from kael._apply import apply, apply_in_place, apply_view, apply_views
from kael._errors import Error
from kael._operators import FUNCTIONS, dimension, integers, method, public
from kael._tensor import Tensor


def _integer(name: str, value: Any) -> int:
    return _checks.integer(name, value, -_checks.INT64_MAX, _checks.INT64_MAX)


def _tensors(name: str, tensors: Any) -> list[Tensor]:
    listed = list(tensors) if isinstance(tensors, (list, tuple)) else None
    if listed is None or not all(isinstance(tensor, Tensor) for tensor in listed):
        raise TypeError(f"{name}: argument 1 must be a list of tensors")
    if not listed:
        raise Error(f"{name}: no tensors, expected at least one")
    return listed


def _cat(tensors: list[Tensor] | tuple[Tensor, ...], dim: int = 0) -> Tensor:
    """The tensors one after the other along ``dim``, in which alone their shapes may differ."""
    return apply("cat", _tensors("cat", tensors), dimension("cat", dim))


def _stack(tensors: list[Tensor] | tuple[Tensor, ...], dim: int = 0) -> Tensor:
    """Tensors of one shape along a new dimension."""
    return apply("stack", _tensors("stack", tensors), dimension("stack", dim))


for _function in (_cat, _stack):
    _function.__name__ = _function.__qualname__ = _function.__name__.removeprefix("_")
    _function.__module__ = "kael"
    FUNCTIONS[_function.__name__] = _function


@public
def _index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """The slices along ``dim`` at ``index``, int64 with one dimension."""
    return apply("index_select", x, dimension("index_select", dim), index)


@public
def _index_add(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """``x`` with the slices of ``source`` added at ``index``, in order where one occurs twice."""
    return apply("index_add", x, dimension("index_add", dim), index, source)


@method
def _index_add_(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """As ``index_add``, written over the tensor."""
    apply_in_place("index_add_", self, dimension("index_add", dim), index, source)
    return self


@public
def _gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """In the shape of ``index``: the elements of ``x`` with the same indices but, in ``dim``, the one that
    ``index`` (int64) holds.
    """
    return apply("gather", x, dimension("gather", dim), index)


@public
def _scatter_add(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """``x`` with the elements of ``source`` added where ``gather`` would find them."""
    return apply("scatter_add", x, dimension("scatter_add", dim), index, source)


@method
def _scatter_add_(self: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """As ``scatter_add``, written over the tensor."""
    apply_in_place("scatter_add_", self, dimension("scatter_add", dim), index, source)
    return self


@public
def _scatter(x: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None) -> Tensor:
    """``x`` with the elements of ``src``, or one number, where ``gather`` would find them; of several for one
    place the last one in the order of ``index``.
    """
    return apply("scatter", x, dimension("scatter", dim), index, _source("scatter", src, value))


@method
def _scatter_(self: Tensor, dim: int, index: Tensor, src: Any = None, *, value: Any = None) -> Tensor:
    """As ``scatter``, written over the tensor."""
    apply_in_place("scatter_", self, dimension("scatter", dim), index, _source("scatter_", src, value))
    return self


def _source(name: str, src: Any, value: Any) -> Any:
    if (src is None) == (value is None):
        raise TypeError(f"{name}: expected either src, a tensor or a number, or value, a number")
    return value if src is None else src


@public
def _nonzero(x: Tensor, *, as_tuple: bool = False) -> Any:
    """The indices of the elements that are not 0, int64 [how many, dimensions], in row-major order; as a
    tuple the columns of that, with which ``x`` can be indexed: one also for a tensor without dimensions.
    """
    if not _checks.flag("nonzero: as_tuple", as_tuple):
        return apply("nonzero", x)
    found = apply("nonzero", apply("reshape", x, [1]) if isinstance(x, Tensor) and x.ndim == 0 else x)
    return tuple(found[:, i] for i in range(found.shape[1]))


@public
def _masked_select(x: Tensor, mask: Tensor) -> Tensor:
    """The elements where the bools of ``mask`` are true, with one dimension; both broadcast."""
    return apply("masked_select", x, mask)


@public
def _masked_fill(x: Tensor, mask: Tensor, value: Any) -> Tensor:
    """``value``, one number, where the bools of ``mask`` are true, and ``x`` elsewhere."""
    return apply("masked_fill", x, mask, value)


@method
def _masked_fill_(self: Tensor, mask: Tensor, value: Any) -> Tensor:
    """As ``masked_fill``, written over the tensor."""
    apply_in_place("masked_fill_", self, mask, value)
    return self


@public
def _flip(x: Tensor, dims: int | list[int] | tuple[int, ...]) -> Tensor:
    """The elements in reverse order along some dimensions."""
    return apply("flip", x, [dimension("flip", dim) for dim in _listed(dims)])


@public
def _roll(x: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """The elements moved on by ``shifts`` places along ``dims``; those that leave come in at the other end.
    Without ``dims`` in the order of all elements.
    """
    where = None if dims is None else [dimension("roll", dim) for dim in _listed(dims)]
    return apply("roll", x, [_integer("roll: a shift", shift) for shift in _listed(shifts)], where)


def _listed(values: Any) -> list[Any]:
    return list(values) if isinstance(values, (list, tuple)) else [values]


@method
def _repeat(self: Tensor, *counts: Any) -> Tensor:
    """A copy repeated so often along each dimension; there may be more of them than the tensor has."""
    return apply("repeat", self, integers("repeat", counts))


# PadMode, in order.
_PAD_MODES = ("constant", "reflect", "replicate", "circular")


@public
def _pad(x: Tensor, pad: list[int] | tuple[int, ...], mode: str = "constant", value: Any = 0) -> Tensor:
    """With so many elements added before and after the last dimension, then before and after the one before
    it, and so on. A negative amount takes elements away. Modes: ``"constant"`` adds ``value``, ``"reflect"``
    the elements next to the one at the edge, mirrored, ``"replicate"`` the one at the edge, ``"circular"``
    those at the other end.
    """
    number = _PAD_MODES.index(_checks.choice("pad: mode", mode, _PAD_MODES))
    return apply("pad", x, [_integer("pad: an amount", amount) for amount in _listed(pad)], value, number)


# ---- Views ----------------------------------------------------


@public
def _narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """The view of ``length`` elements from ``start`` on."""
    place = dimension("narrow", dim), _integer("narrow: start", start), _integer("narrow: length", length)
    return apply_view("narrow", x, *place)


@public
def _split(x: Tensor, split_size: int | list[int] | tuple[int, ...], dim: int = 0) -> tuple[Tensor, ...]:
    """Views of so many elements each, the last one of what is left; or of the sizes that are listed."""
    where = dimension("split", dim)
    if isinstance(split_size, (list, tuple)):
        sizes = [_integer("split: a size", size) for size in split_size]
    else:
        step = _checks.integer("split: split_size", split_size, 1, _checks.INT64_MAX)
        size = _size(x, where)
        sizes = [min(step, size - start) for start in range(0, size, step)] or [0]
    return apply_views("split", len(sizes), x, sizes, where)


@public
def _chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """So many views of equal size, the last one smaller, and fewer where that is enough."""
    where = dimension("chunk", dim)
    count = _checks.integer("chunk: chunks", chunks, 1, _checks.INT64_MAX)
    size = _size(x, where)
    made = -(-size // -(-size // count)) if size else 1
    return apply_views("chunk", made, x, count, where)


def _size(x: Any, dim: int) -> int:
    """Of a dimension that is there; else 0, and the library says what is wrong."""
    return x.shape[dim] if isinstance(x, Tensor) and -x.ndim <= dim < x.ndim else 0


@public
def _flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Some dimensions as one: a view where the strides allow it, else a copy."""
    return apply("flatten", x, dimension("flatten", start_dim), dimension("flatten", end_dim))


@public
def _diagonal(x: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """The view of the elements whose index in ``dim2`` is that in ``dim1`` plus ``offset``, as the last
    dimension instead of both.
    """
    where = dimension("diagonal", dim1), dimension("diagonal", dim2)
    return apply_view("diagonal", x, _integer("diagonal: offset", offset), *where)
