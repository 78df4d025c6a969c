"""Compares gradients with differences of the function."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from kael import _autograd, _checks
from kael._errors import Error
from kael._tensor import Tensor, tensor

Function = Callable[..., Tensor | tuple[Tensor, ...]]


def gradcheck(
    function: Function,
    inputs: Tensor | Sequence[Tensor],
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    variants: bool = True,
) -> bool:
    """Whether the gradients of ``function`` are its derivatives: True, or a :class:`kael.Error` that names
    the first that is not.

    ``function`` takes the inputs and answers with a tensor or a tuple of them. The inputs that require a
    gradient must be float64: each of their elements is moved by ``eps`` to both sides, and the difference
    compared with the gradient, which may be off by ``atol`` plus ``rtol`` of it. With ``variants`` the
    function is tried again on inputs that are not contiguous, that are one row repeated by a stride of 0,
    and, unless it refuses them, on inputs without dimensions. The gradient of the output comes contiguous
    and expanded.
    """
    given = [inputs] if isinstance(inputs, Tensor) else list(inputs)
    for index, value in enumerate(given):
        if not isinstance(value, Tensor):
            raise TypeError(f"input {index} must be a kael.Tensor, not {type(value).__name__}")
        if value.requires_grad and value.dtype != "float64":
            raise Error(f"gradcheck: input {index} is of dtype {value.dtype}, expected float64")
    if not any(value.requires_grad for value in given):
        raise Error("gradcheck: none of the inputs requires a gradient, expected at least one that does")
    limits = (
        _checks.number("eps", eps),
        _checks.number("atol", atol),
        _checks.number("rtol", rtol),
    )
    _check(function, "as given", given, [_same] * len(given), *limits)
    if _checks.flag("variants", variants):
        for name, leaves, layouts in _variants(given):
            try:
                _check(function, name, leaves, layouts, *limits)
            except Error as error:
                if name != _WITHOUT_DIMENSIONS or error.message.startswith("gradcheck"):
                    raise
    return True


_WITHOUT_DIMENSIONS = "without dimensions"
_Layout = Callable[[Tensor], Tensor]


def _same(x: Tensor) -> Tensor:
    return x


def _variants(given: list[Tensor]) -> Iterator[tuple[str, list[Tensor], list[_Layout]]]:
    """A name, leaves, and what makes the inputs of them."""
    values = [value.detach().numpy() for value in given]

    def leaf(index: int, array: np.ndarray) -> Tensor:
        return tensor(array, requires_grad=given[index].requires_grad)

    wide = [leaf(i, np.repeat(array[..., None], 2, axis=-1)) for i, array in enumerate(values)]
    yield "not contiguous", wide, [_second_of_pairs] * len(given)
    rows = [leaf(i, array[:1] if array.ndim and array.size else array) for i, array in enumerate(values)]
    yield "expanded", rows, [_expanded_to(array.shape) for array in values]
    if all(array.size for array in values):
        yield (
            _WITHOUT_DIMENSIONS,
            [leaf(i, array.flat[0]) for i, array in enumerate(values)],
            [_same] * len(given),
        )


def _second_of_pairs(x: Tensor) -> Tensor:
    return x[..., 1]


def _expanded_to(shape: tuple[int, ...]) -> _Layout:
    return lambda x: x.expand(shape) if shape else x


def _check(
    function: Function,
    variant: str,
    leaves: list[Tensor],
    layouts: list[_Layout],
    eps: float,
    atol: float,
    rtol: float,
) -> None:
    def run(tensors: list[Tensor]) -> tuple[Tensor, ...]:
        results = function(*(layout(x) for layout, x in zip(layouts, tensors, strict=True)))
        return (results,) if isinstance(results, Tensor) else tuple(results)

    def numbers(tensors: list[Tensor]) -> list[np.ndarray]:
        with _autograd.no_grad():
            return [result.detach().numpy().copy() for result in run(tensors)]

    results = run(leaves)
    for index, leaf in enumerate(leaves):
        if not leaf.requires_grad:
            continue
        expected = _differences(
            lambda moved, i=index: numbers([*leaves[:i], moved, *leaves[i + 1 :]]), leaf, eps
        )
        for output, result in enumerate(results):
            if result.requires_grad:
                actual = _gradients(result, leaf)
                _compare(variant, index, output, actual, expected[output], atol, rtol)


def _differences(run: Any, leaf: Tensor, eps: float) -> list[np.ndarray]:
    """For each output an array [elements of the output, elements of the leaf]."""
    at = leaf.detach().numpy()
    columns = []
    for place in range(at.size):
        sides = []
        for step in (eps, -eps):
            moved = at.copy()
            moved.flat[place] += step
            sides.append(run(tensor(moved)))
        columns.append([(above - below).ravel() / (2 * eps) for above, below in zip(*sides, strict=True)])
    if not columns:
        return [np.empty((result.size, 0)) for result in run(tensor(at.copy()))]
    return [np.stack(parts, axis=1) for parts in zip(*columns, strict=True)]


def _gradients(result: Tensor, leaf: Tensor) -> np.ndarray:
    """The same by the recorded derivative, a walk for each element of the output."""
    rows = []
    for place in range(math.prod(result.shape)):
        one = np.zeros(math.prod(result.shape))
        one[place] = 1.0
        rows.append(_walk(result, leaf, tensor(one.reshape(result.shape))))
    _check_expanded_gradient(result, leaf, rows)
    return np.array(rows).reshape(len(rows), -1) if rows else np.empty((0, math.prod(leaf.shape)))


def _walk(result: Tensor, leaf: Tensor, gradient: Tensor) -> np.ndarray:
    before = gradient.tolist()
    (found,) = _autograd.grad(result, leaf, gradient, retain_graph=True, allow_unused=True)
    if gradient.tolist() != before:
        raise Error(
            "gradcheck: a backward pass has changed the gradient that it was given, expected it as it was"
        )
    return np.zeros(math.prod(leaf.shape)) if found is None else found.detach().numpy().ravel()


def _check_expanded_gradient(result: Tensor, leaf: Tensor, rows: list[np.ndarray]) -> None:
    """A gradient of ones that all share one element must give the sum of the rows."""
    if not rows:
        return
    ones = tensor(np.ones(()), dtype=result.dtype).expand(result.shape)
    found = _walk(result, leaf, ones)
    expected = np.sum(rows, axis=0)
    if not np.allclose(found, expected, rtol=1e-9, atol=1e-9, equal_nan=True):
        raise Error(
            "gradcheck: an expanded gradient gives another result than a contiguous one, expected the same"
        )


def _compare(
    variant: str, index: int, output: int, actual: np.ndarray, expected: np.ndarray, atol: float, rtol: float
) -> None:
    wrong = ~np.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=True)
    if wrong.any():
        row, column = (int(place) for place in np.argwhere(wrong)[0])
        raise Error(
            f"gradcheck, inputs {variant}: the gradient of element {row} of output {output} with respect to "
            f"element {column} of input {index} is {actual[row, column]:.6g}, expected the difference of the "
            f"function, {expected[row, column]:.6g}"
        )
