"""Sums, extremes and orders along axes."""

from __future__ import annotations

from typing import Any

import kael
from kael._tensor import Tensor
from kael.array_api._registry import array, axes, standard

Axes = int | tuple[int, ...] | None


def _over(x: Tensor, axis: Axes) -> list[int]:
    return axes(axis, x.ndim)


def _is_over_none(axis: Axes) -> bool:
    """Over no axis at all nothing is reduced; kael takes no axes for all of them."""
    return isinstance(axis, tuple) and not axis


@standard
def _all(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether no element is 0."""
    x = array("all", x)
    return x.to("bool") if _is_over_none(axis) else kael.all(x, _over(x, axis), keepdims)


@standard
def _any(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """Whether an element is not 0."""
    x = array("any", x)
    return x.to("bool") if _is_over_none(axis) else kael.any(x, _over(x, axis), keepdims)


@standard
def _max(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The largest element; NaN where there is one."""
    x = array("max", x)
    return x.clone() if _is_over_none(axis) else kael.amax(x, _over(x, axis), keepdims)


@standard
def _min(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The smallest element; NaN where there is one."""
    x = array("min", x)
    return x.clone() if _is_over_none(axis) else kael.amin(x, _over(x, axis), keepdims)


def _summed(name: str, x: Any, axis: Axes, dtype: str | None, keepdims: bool) -> Tensor:
    x = array(name, x)
    if _is_over_none(axis):
        return x.to(dtype or (x.dtype if "float" in x.dtype else "int64"))
    return getattr(kael, name)(x, _over(x, axis), keepdims, dtype=dtype)


@standard
def _sum(x: Tensor, /, *, axis: Axes = None, dtype: str | None = None, keepdims: bool = False) -> Tensor:
    """The sum; int64 of integers unless another dtype is named."""
    return _summed("sum", x, axis, dtype, keepdims)


@standard
def _prod(x: Tensor, /, *, axis: Axes = None, dtype: str | None = None, keepdims: bool = False) -> Tensor:
    """The product; int64 of integers unless another dtype is named."""
    return _summed("prod", x, axis, dtype, keepdims)


@standard
def _mean(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """The mean of floats."""
    x = array("mean", x)
    return x.clone() if _is_over_none(axis) else kael.mean(x, _over(x, axis), keepdims)


@standard
def _var(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The variance of floats: the sum of squares around the mean, over their number less ``correction``."""
    x = array("var", x)
    if _is_over_none(axis):
        return kael.var(x.unsqueeze(-1), -1, correction=correction)
    return kael.var(x, _over(x, axis), correction=correction, keepdim=keepdims)


@standard
def _std(x: Tensor, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Tensor:
    """The root of the variance."""
    return kael.sqrt(_var(x, axis=axis, correction=correction, keepdims=keepdims))


@standard
def _argmax(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the largest element stands, the first of equals; by None in the order of all."""
    return _place("argmax", x, axis, keepdims)


@standard
def _argmin(x: Tensor, /, *, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """Where the smallest element stands, the first of equals; by None in the order of all."""
    return _place("argmin", x, axis, keepdims)


def _place(name: str, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    return getattr(kael, name)(array(name, x), axis, keepdims)


@standard
def _count_nonzero(x: Tensor, /, *, axis: Axes = None, keepdims: bool = False) -> Tensor:
    """How many elements are not 0."""
    return _sum(array("count_nonzero", x).to("bool"), axis=axis, keepdims=keepdims)


@standard
def _nonzero(x: Tensor, /) -> tuple[Tensor, ...]:
    """For each axis the indices of the elements that are not 0, in row-major order."""
    x = array("nonzero", x)
    if x.ndim == 0:
        raise kael.Error("nonzero: an array without dimensions, expected one or more")
    return kael.nonzero(x, as_tuple=True)


@standard
def _argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The indices that put the elements in order; equal ones stay in theirs."""
    return kael.argsort(array("argsort", x), axis, descending)


@standard
def _sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """The elements in order."""
    values, _ = kael.sort(array("sort", x), axis, descending)
    return values


@standard
def _cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: str | None = None, include_initial: bool = False
) -> Tensor:
    """The sums of the first, the first two, ... elements along ``axis``, which may be None for a vector; with
    ``include_initial`` 0 before them.
    """
    x = array("cumulative_sum", x)
    if axis is None:
        if x.ndim != 1:
            raise kael.Error(f"cumulative_sum: no axis for an array of shape {list(x.shape)}, expected one")
        axis = 0
    sums = kael.cumsum(x if dtype is None else x.to(dtype), axis)
    sums = sums if dtype is None else sums.to(dtype)
    if not include_initial:
        return sums
    first = list(sums.shape)
    first[axis] = 1
    return kael.cat([kael.zeros(first, dtype=sums.dtype), sums], axis)
