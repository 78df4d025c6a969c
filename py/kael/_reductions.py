"""Reductions, and what works along one dimension: functions of the package and methods of
:class:`kael.Tensor`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kael import _checks
from kael._apply import apply, apply_pair
from kael._operators import Dimensions, dimension, dimensions, dtype_number, public
from kael._tensor import Tensor


def _over(name: str, dim: Any, keepdim: Any) -> tuple[list[int] | None, bool]:
    return dimensions(name, dim), _checks.flag(f"{name}: keepdim", keepdim)


def _apply_in(dtype: str | None, name: str, x: Any, *arguments: Any) -> Tensor:
    """The operator's result for ``x`` as another dtype, in that dtype."""
    if dtype is None:
        return apply(name, x, *arguments)
    number = dtype_number(name, dtype)
    return apply("to", apply(name, apply("to", x, number), *arguments), number)


@public
def _sum(x: Tensor, dim: Dimensions = None, keepdim: bool = False, *, dtype: str | None = None) -> Tensor:
    """The sum over the dimensions named, or over all; int64 of integers and bools. 0 of nothing. With
    ``dtype`` that of the elements converted to it.
    """
    return _apply_in(dtype, "sum", x, *_over("sum", dim, keepdim))


@public
def _prod(x: Tensor, dim: Dimensions = None, keepdim: bool = False, *, dtype: str | None = None) -> Tensor:
    """The product over the dimensions named, or over all; int64 of integers and bools. 1 of nothing. With
    ``dtype`` that of the elements converted to it.
    """
    return _apply_in(dtype, "prod", x, *_over("prod", dim, keepdim))


@public
def _mean(x: Tensor, dim: Dimensions = None, keepdim: bool = False, *, dtype: str | None = None) -> Tensor:
    """The mean of floats over the dimensions named, or over all. NaN of nothing. With ``dtype`` that of the
    elements converted to it, which must be a dtype of floats.
    """
    return _apply_in(dtype, "mean", x, *_over("mean", dim, keepdim))


@public
def _var(x: Tensor, dim: Dimensions = None, *, correction: float = 1, keepdim: bool = False) -> Tensor:
    """The variance of floats: the sum of squares around the mean, over their number less ``correction``."""
    return apply("var", x, *_over("var", dim, keepdim), _checks.number("var: correction", correction))


@public
def _std(x: Tensor, dim: Dimensions = None, *, correction: float = 1, keepdim: bool = False) -> Tensor:
    """The root of the variance."""
    return apply("std", x, *_over("std", dim, keepdim), _checks.number("std: correction", correction))


@public
def _norm(x: Tensor, p: float = 2, dim: Dimensions = None, keepdim: bool = False) -> Tensor:
    """``sum(abs(x) ** p) ** (1 / p)`` of floats. An infinite ``p`` is the largest (or smallest) absolute
    value, 0 the number of elements that are not 0.
    """
    order = p if isinstance(p, (float, np.floating)) else _checks.number("norm: p", p)
    return apply("norm", x, float(order), *_over("norm", dim, keepdim))


@public
def _logsumexp(x: Tensor, dim: Dimensions = None, keepdim: bool = False) -> Tensor:
    """``log(sum(exp(x)))`` without overflow. -inf of nothing."""
    return apply("logsumexp", x, *_over("logsumexp", dim, keepdim))


@public
def _amax(x: Tensor, dim: Dimensions = None, keepdim: bool = False) -> Tensor:
    """The largest element; NaN where there is one. Of nothing an error."""
    return apply("amax", x, *_over("amax", dim, keepdim))


@public
def _amin(x: Tensor, dim: Dimensions = None, keepdim: bool = False) -> Tensor:
    """The smallest element; NaN where there is one. Of nothing an error."""
    return apply("amin", x, *_over("amin", dim, keepdim))


@public
def _any(x: Tensor, dim: Dimensions = None, keepdim: bool = False) -> Tensor:
    """Whether an element is not 0, as bool. False of nothing."""
    return apply("any", x, *_over("any", dim, keepdim))


@public
def _all(x: Tensor, dim: Dimensions = None, keepdim: bool = False) -> Tensor:
    """Whether no element is 0, as bool. True of nothing."""
    return apply("all", x, *_over("all", dim, keepdim))


def _place(name: str, x: Tensor, dim: Any, keepdim: Any) -> Tensor:
    keep = _checks.flag(f"{name}: keepdim", keepdim)
    return apply(name, x, None if dim is None else dimension(name, dim), keep)


@public
def _argmax(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the largest element stands, the first of equals, or the first NaN: int64. Without ``dim`` in the
    order of all elements.
    """
    return _place("argmax", x, dim, keepdim)


@public
def _argmin(x: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """Where the smallest element stands, the first of equals, or the first NaN: int64. Without ``dim`` in the
    order of all elements.
    """
    return _place("argmin", x, dim, keepdim)


class Extremes(NamedTuple):
    """The largest or smallest elements along a dimension, and where they stand."""

    values: Tensor
    indices: Tensor


class Sorted(NamedTuple):
    """Elements along a dimension, in order, and where they stood."""

    values: Tensor
    indices: Tensor


@public
def _argsort(x: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """The indices along ``dim`` that put ``x`` in order: int64. NaN is larger than every number; equal
    elements stay in their order.
    """
    return apply("argsort", x, dimension("argsort", dim), _checks.flag("argsort: descending", descending))


@public
def _sort(x: Tensor, dim: int = -1, descending: bool = False) -> Sorted:
    """The elements along ``dim`` in order, and where they stood, as ``(values, indices)``. NaN is larger than
    every number; equal elements stay in their order.
    """
    flag = _checks.flag("sort: descending", descending)
    return Sorted(*apply_pair("sort", x, dimension("sort", dim), flag))


@public
def _topk(x: Tensor, k: int, dim: int = -1, largest: bool = True) -> Sorted:
    """The ``k`` largest (or smallest) elements along ``dim``, in order, and where they stood, as
    ``(values, indices)``. Of equal elements those that come first.
    """
    count = _checks.integer("topk: k", k, 0, _checks.INT64_MAX)
    where = dimension("topk", dim), _checks.flag("topk: largest", largest)
    return Sorted(*apply_pair("topk", x, count, *where))


def _extremes(kind: str, x: Any, dim: Any, keepdim: Any) -> Tensor | Extremes:
    if isinstance(dim, Tensor):
        return apply(f"{kind}imum", x, dim)
    if dim is None:
        return apply(f"a{kind}", x)
    return Extremes(apply(f"a{kind}", x, *_over(kind, [dim], keepdim)), _place(f"arg{kind}", x, dim, keepdim))


@public
def _max(x: Tensor, dim: int | Tensor | None = None, keepdim: bool = False) -> Tensor | Extremes:
    """The largest element of all; along ``dim`` also where it stands, as ``(values, indices)``. Of two
    tensors their ``maximum``.
    """
    return _extremes("max", x, dim, keepdim)


@public
def _min(x: Tensor, dim: int | Tensor | None = None, keepdim: bool = False) -> Tensor | Extremes:
    """The smallest element of all; along ``dim`` also where it stands, as ``(values, indices)``. Of two
    tensors their ``minimum``.
    """
    return _extremes("min", x, dim, keepdim)


@public
def _cumsum(x: Tensor, dim: int, *, dtype: str | None = None) -> Tensor:
    """The sums of the elements so far along ``dim``; int64 of integers and bools. With ``dtype`` those of the
    elements converted to it.
    """
    return _apply_in(dtype, "cumsum", x, dimension("cumsum", dim))


@public
def _softmax(x: Tensor, dim: int, dtype: str | None = None) -> Tensor:
    """``exp(x) / sum(exp(x))`` along ``dim``, without overflow. NaN where all are -inf. Of floats, or of what
    ``dtype`` makes floats first.
    """
    return _apply_in(dtype, "softmax", x, dimension("softmax", dim))


@public
def _log_softmax(x: Tensor, dim: int, dtype: str | None = None) -> Tensor:
    """The logarithm of ``softmax``, exact where that is 0."""
    return _apply_in(dtype, "log_softmax", x, dimension("log_softmax", dim))
