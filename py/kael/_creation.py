"""New tensors, and products of matrices. Functions of the package, under PyTorch's names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kael import _checks
from kael._apply import apply
from kael._operators import FUNCTIONS, dtype_number, integers, method, public
from kael._tensor import Tensor


def _creates(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Makes ``_name`` the function ``kael.name``."""
    name = function.__name__.removeprefix("_")
    function.__name__ = function.__qualname__ = name
    function.__module__ = "kael"
    FUNCTIONS[name] = function
    return function


def _dtype(name: str, dtype: str | None) -> int | None:
    return None if dtype is None else dtype_number(name, dtype)


@_creates
def _zeros(*shape: Any, dtype: str = "float32") -> Tensor:
    """Zeros. The shape is given as integers or as one list of them."""
    return apply("full", integers("zeros", shape), 0, dtype_number("zeros", dtype))


@_creates
def _ones(*shape: Any, dtype: str = "float32") -> Tensor:
    """Ones. The shape is given as integers or as one list of them."""
    return apply("full", integers("ones", shape), 1, dtype_number("ones", dtype))


@_creates
def _full(shape: Any, value: Any, *, dtype: str | None = None) -> Tensor:
    """One number everywhere; of the number's own dtype (bool, int64 or float32) when none is given."""
    return apply("full", integers("full", (shape,)), value, _dtype("full", dtype))


@_creates
def _zeros_like(x: Tensor, *, dtype: str | None = None) -> Tensor:
    """Zeros in the shape of ``x``, and in its dtype when none is given."""
    return _zeros(_shape_of("zeros_like", x), dtype=dtype or x.dtype)


@_creates
def _ones_like(x: Tensor, *, dtype: str | None = None) -> Tensor:
    """Ones in the shape of ``x``, and in its dtype when none is given."""
    return _ones(_shape_of("ones_like", x), dtype=dtype or x.dtype)


def _shape_of(name: str, x: Any) -> tuple[int, ...]:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: argument 1 is {type(x).__name__}, expected a tensor")
    return x.shape


@_creates
def _arange(start: Any, end: Any = None, step: Any = 1, *, dtype: str | None = None) -> Tensor:
    """``start, start + step, ...`` up to but without ``end``; from 0 when only one number is given. int64 of
    integers, else float32, when no dtype is given.
    """
    if end is None:
        start, end = 0, start
    return apply("arange", start, end, step, _dtype("arange", dtype))


@_creates
def _linspace(start: float, end: float, steps: int, *, dtype: str = "float32") -> Tensor:
    """``steps`` numbers at equal distances from ``start`` to ``end``, both included."""
    first, last = _checks.number("linspace: start", start), _checks.number("linspace: end", end)
    count = _checks.integer("linspace: steps", steps, 0, _checks.INT64_MAX)
    return apply("linspace", first, last, count, dtype_number("linspace", dtype))


@_creates
def _eye(n: int, m: int | None = None, *, dtype: str = "float32") -> Tensor:
    """Ones where row and column are equal, else zeros: ``n`` rows and ``m`` (else as many) columns."""
    rows = _checks.integer("eye: n", n, 0, _checks.INT64_MAX)
    columns = rows if m is None else _checks.integer("eye: m", m, 0, _checks.INT64_MAX)
    return apply("eye", rows, columns, dtype_number("eye", dtype))


@_creates
def _rand(*shape: Any, dtype: str = "float32") -> Tensor:
    """Random numbers, evenly from [0, 1), of the stream of :func:`kael.manual_seed`."""
    return apply("rand", integers("rand", shape), dtype_number("rand", dtype))


@_creates
def _randn(*shape: Any, dtype: str = "float32") -> Tensor:
    """Random numbers, normal with mean 0 and standard deviation 1, of the stream of
    :func:`kael.manual_seed`.
    """
    return apply("randn", integers("randn", shape), dtype_number("randn", dtype))


@public
def _matmul(x: Tensor, y: Tensor) -> Tensor:
    """The product of matrices in the last two dimensions; those before them broadcast. A vector is a row on
    the left and a column on the right. Both have one dtype.
    """
    return apply("matmul", x, y)


@_creates
def _einsum(equation: str, *operands: Any) -> Tensor:
    """Sums of products over named dimensions: ``"bij,bjk->bik"`` names each dimension of each operand by a
    letter, and those of the result; what is not among the latter is summed. A letter twice in an operand
    stands for its diagonal, ``...`` for any number of dimensions, which broadcast as those of size 1 do.
    Without ``->`` the result has those of ``...`` and then, in alphabetical order, the letters that occur
    once. Operands are numbers of one dtype, multiplied from the left to the right; they may be given as one
    list. The result of a single operand is a view where nothing is summed.
    """
    if not isinstance(equation, str):
        raise TypeError(f"einsum: the equation must be a str, not {type(equation).__name__}")
    listed = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    if not listed or not all(isinstance(operand, Tensor) for operand in listed):
        raise TypeError("einsum: the operands must be tensors, one or more")
    return apply("einsum", list(equation.encode("utf-8", "surrogatepass")), list(listed))


@method
def __matmul__(self: Tensor, other: Any) -> Tensor:
    return apply("matmul", self, other) if isinstance(other, Tensor) else NotImplemented
