"""The same elements in other shapes and orders, and parts of them."""

from __future__ import annotations

from typing import Any

import numpy as np

import kael
from kael import _checks
from kael._tensor import Tensor
from kael.array_api._dtypes import _result_type
from kael.array_api._registry import array, axes, standard


def _wrapped(name: str, axis: Any, rank: int) -> int:
    axis = _checks.integer(f"{name}: axis", axis, -rank, rank - 1)
    return axis + rank if axis < 0 else axis


@standard
def _broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to which all of them broadcast."""
    result = kael.zeros(())
    for shape in shapes:
        result = kael.add(result, kael.zeros(1).reshape([1] * len(shape)).expand(list(shape)))
    return result.shape


@standard
def _broadcast_to(x: Tensor, /, shape: tuple[int, ...]) -> Tensor:
    """A view that repeats dimensions of size 1, and adds dimensions in front."""
    return array("broadcast_to", x).expand(list(shape))


@standard
def _broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """Views of all of them in the shape to which they broadcast."""
    shape = _broadcast_shapes(*(array("broadcast_arrays", x).shape for x in arrays))
    return tuple(x.expand(list(shape)) for x in arrays)


@standard
def _concat(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int | None = 0) -> Tensor:
    """One after the other along ``axis``, or by None all elements of each."""
    listed = [array("concat", x) for x in arrays]
    if axis is None:
        listed, axis = [x.reshape(-1) for x in listed], 0
    return kael.cat(listed, axis)


@standard
def _stack(arrays: tuple[Tensor, ...] | list[Tensor], /, *, axis: int = 0) -> Tensor:
    """Arrays of one shape along a new axis."""
    return kael.stack([array("stack", x) for x in arrays], axis)


@standard
def _unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """The views at each index of an axis, without it."""
    x = array("unstack", x)
    axis = _wrapped("unstack", axis, x.ndim)
    return tuple(x.select(axis, index) for index in range(x.shape[axis]))


@standard
def _expand_dims(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """A view with new axes of size 1, which in the result stand where they are named."""
    x = array("expand_dims", x)
    wanted = axes(axis, 0)
    places = sorted(_wrapped("expand_dims", one, x.ndim + len(wanted)) for one in wanted)
    if len(set(places)) < len(places):
        raise kael.Error(f"expand_dims: axis {axis} names an axis twice, expected each once")
    for place in places:
        x = x.unsqueeze(place)
    return x


@standard
def _squeeze(x: Tensor, /, axis: int | tuple[int, ...]) -> Tensor:
    """A view without these axes, which must have size 1."""
    x = array("squeeze", x)
    places = sorted({_wrapped("squeeze", one, x.ndim) for one in axes(axis, 0)}, reverse=True)
    for place in places:
        if x.shape[place] != 1:
            raise kael.Error(f"squeeze: axis {place} of an array of shape {list(x.shape)}, expected size 1")
        x = x.squeeze(place)
    return x


@standard
def _flip(x: Tensor, /, *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """The elements in reverse order along some axes, or along all."""
    x = array("flip", x)
    return kael.flip(x, axes(axis, x.ndim))


@standard
def _roll(x: Tensor, /, shift: int | tuple[int, ...], *, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """The elements moved on, those that leave coming in at the other end; by None in the order of all."""
    x = array("roll", x)
    if axis is None:
        return kael.roll(x, shift)
    where = axes(axis, x.ndim)
    return kael.roll(x, [shift] * len(where) if isinstance(shift, int) else list(shift), where)


@standard
def _permute_dims(x: Tensor, /, axes: tuple[int, ...]) -> Tensor:
    """A view with the axes in another order."""
    return array("permute_dims", x).permute(list(axes))


@standard
def _moveaxis(x: Tensor, source: int | tuple[int, ...], destination: int | tuple[int, ...], /) -> Tensor:
    """A view in which some axes stand elsewhere, the others in their order."""
    x = array("moveaxis", x)
    from_places, to_places = (
        [_wrapped("moveaxis", one, x.ndim) for one in axes(which, 0)] for which in (source, destination)
    )
    if len(from_places) != len(to_places) or any(
        len(set(places)) < len(places) for places in (from_places, to_places)
    ):
        raise kael.Error(f"moveaxis: from {source} to {destination}, expected as many, each once")
    order = [axis for axis in range(x.ndim) if axis not in from_places]
    for place, axis in sorted(zip(to_places, from_places, strict=True)):
        order.insert(place, axis)
    return x.permute(order)


@standard
def _reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Another shape of as many elements, one of which may be -1: a view where that is possible, unless a copy
    is asked for. Where it is not, ``copy=False`` is an error.
    """
    x = array("reshape", x)
    if copy is False:
        return x.view(*shape)
    return (x.clone() if copy else x).reshape(list(shape))


@standard
def _repeat(x: Tensor, repeats: Any, /, *, axis: int | None = None) -> Tensor:
    """Each element, or each slice along ``axis``, so often one after the other."""
    x = array("repeat", x)
    if axis is None:
        x, axis = x.reshape(-1), 0
    axis = _wrapped("repeat", axis, x.ndim)
    counts = np.asarray(repeats.numpy() if isinstance(repeats, Tensor) else repeats)
    if counts.size not in (1, x.shape[axis]) or (counts < 0).any():
        raise kael.Error(
            f"repeat: {counts.size} counts for {x.shape[axis]} slices, expected one or as many, 0 or more"
        )
    each = np.broadcast_to(counts.reshape(-1), (x.shape[axis],))
    return kael.index_select(x, axis, kael.tensor(np.repeat(np.arange(x.shape[axis]), each)))


@standard
def _tile(x: Tensor, repetitions: tuple[int, ...], /) -> Tensor:
    """The whole array so often along each axis."""
    x = array("tile", x)
    return x.repeat(*[1] * (x.ndim - len(repetitions)), *repetitions)


@standard
def _take(x: Tensor, indices: Tensor, /, *, axis: int | None = None) -> Tensor:
    """The slices along ``axis`` at some indices, which have one dimension."""
    x = array("take", x)
    if axis is None:
        if x.ndim != 1:
            raise kael.Error(f"take: no axis for an array of shape {list(x.shape)}, expected one")
        axis = 0
    before = (slice(None),) * _wrapped("take", axis, x.ndim)
    return x[(*before, array("take", indices))]


@standard
def _take_along_axis(x: Tensor, indices: Tensor, /, *, axis: int = -1) -> Tensor:
    """For each place of ``indices`` the element whose index in ``axis`` stands there; the other axes
    broadcast.
    """
    x, indices = array("take_along_axis", x), array("take_along_axis", indices)
    axis = _wrapped("take_along_axis", axis, x.ndim)
    size = x.shape[axis]
    places = kael.where(indices < 0, indices + size, indices).to("int64")
    if places.ndim != x.ndim:
        raise kael.Error(f"take_along_axis: indices of {places.ndim} dimensions, expected {x.ndim}")
    whole = _broadcast_shapes(
        *(tuple(1 if i == axis else n for i, n in enumerate(one.shape)) for one in (x, places))
    )
    expanded = x.expand([size if i == axis else n for i, n in enumerate(whole)])
    there = places.expand([places.shape[axis] if i == axis else n for i, n in enumerate(whole)])
    return kael.gather(expanded, axis, there)


@standard
def _diff(
    x: Tensor,
    /,
    *,
    axis: int = -1,
    n: int = 1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
) -> Tensor:
    """The differences of neighbours along ``axis``, ``n`` times."""
    x = array("diff", x)
    times = _checks.integer("diff: n", n, 0, _checks.INT32_MAX)
    parts = [part for part in (prepend, x, append) if part is not None]
    dtype = _result_type(*parts)
    whole = kael.cat([part.to(dtype) for part in parts], axis) if len(parts) > 1 else x
    for _ in range(times):
        size = whole.shape[_wrapped("diff", axis, whole.ndim)]
        later = whole.narrow(axis, min(1, size), max(size - 1, 0))
        earlier = whole.narrow(axis, 0, max(size - 1, 0))
        whole = kael.ne(later, earlier) if dtype == "bool" else kael.sub(later, earlier)
    return whole.clone() if whole is x else whole
