"""The operators, as functions of the package and as methods of :class:`kael.Tensor`.

Names, arguments and results are PyTorch's; where kael differs stands in docs/tensors.md. A number beside a
tensor takes the tensor's dtype, unless it is of a higher kind (bool < integer < float).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from kael import _checks, _signatures
from kael._apply import INT64, apply, apply_in_place, apply_view
from kael._attached import attach
from kael._errors import Error
from kael._tensor import Tensor

#: What kael exports under the same names.
FUNCTIONS: dict[str, Callable[..., Any]] = {}


def _named(function: Callable[..., Any], name: str, owner: str = "kael") -> Callable[..., Any]:
    function.__name__ = name
    function.__qualname__ = name
    function.__module__ = owner
    return function


def public(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes ``_name(x, ...)`` the function ``kael.name`` and the method ``Tensor.name``."""
    name = function.__name__.removeprefix("_")
    FUNCTIONS[name] = _named(function, name)
    attach(name, function)
    return function


def method(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes ``_name(self, ...)`` the method ``Tensor.name`` alone."""
    name = function.__name__
    if not name.startswith("__"):
        name = name.removeprefix("_")
    attach(name, _named(function, name))
    return function


# ---- Of one tensor -----------------------------------------------

_UNARY = {
    "neg": "-x. Not for bools.",
    "abs": "The absolute value.",
    "sign": "-1, 0 or 1; NaN stays NaN.",
    "floor": "The next integer below, in the same dtype.",
    "ceil": "The next integer above, in the same dtype.",
    "round": "The nearest integer, ties to the even one, in the same dtype.",
    "trunc": "The integer part, in the same dtype.",
    "relu": "max(x, 0); NaN stays NaN.",
    "square": "x times x.",
    "exp": "e to the power x.",
    "expm1": "exp(x) - 1, exact near 0.",
    "log": "The natural logarithm.",
    "log1p": "log(1 + x), exact near 0.",
    "sqrt": "The square root.",
    "rsqrt": "1 / sqrt(x).",
    "reciprocal": "1 / x.",
    "sin": "The sine; x in radians.",
    "cos": "The cosine; x in radians.",
    "tanh": "The hyperbolic tangent.",
    "sigmoid": "1 / (1 + exp(-x)).",
    "erf": "The error function: the share of a normal distribution between -x and x, at sqrt(2) scale.",
    "logical_not": "Whether x is 0.",
    "isnan": "Whether x is NaN.",
    "isinf": "Whether x is infinite.",
    "isfinite": "Whether x is neither infinite nor NaN.",
}

_BINARY = {
    "add": "x + y; of bools, whether one is true.",
    "sub": "x - y. Not for bools.",
    "mul": "x * y; of bools, whether both are true.",
    "floor_divide": "The quotient rounded down. An integer divided by 0 is an error.",
    "remainder": "What is left of x after floor_divide: it has the sign of y.",
    "fmod": "What is left of x after a quotient rounded towards zero: it has the sign of x.",
    "pow": "x to the power y. An integer to a negative power is an error.",
    "maximum": "The larger one; NaN where either is NaN.",
    "minimum": "The smaller one; NaN where either is NaN.",
    "eq": "Whether x == y.",
    "ne": "Whether x != y.",
    "lt": "Whether x < y.",
    "le": "Whether x <= y.",
    "gt": "Whether x > y.",
    "ge": "Whether x >= y.",
    "logical_and": "Whether neither is 0.",
    "logical_or": "Whether one of them is not 0.",
    "logical_xor": "Whether one of them, and not both, is 0.",
}


_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")


def _beside(tensor: Any, value: Any) -> Any:
    """``value``; in place of an integer beyond int64, a float that compares with ``tensor`` as it does."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        return value
    if int(value) in INT64 or not isinstance(tensor, Tensor):
        return value
    if "float" in tensor.dtype:
        with contextlib.suppress(OverflowError):
            return float(value)
    return math.inf if value > 0 else -math.inf


def _define_unary(name: str, meaning: str) -> None:
    def function(x: Any) -> Tensor:
        return apply(name, x)

    function.__doc__ = meaning
    function.__name__ = name
    public(function)

    def in_place(self: Tensor) -> Tensor:
        apply_in_place(name + "_", self)
        return self

    in_place.__doc__ = f"As ``{name}``, written over the tensor."
    in_place.__name__ = name + "_"
    method(in_place)


def _define_binary(name: str, meaning: str) -> None:
    def function(x: Any, y: Any) -> Tensor:
        if name in _COMPARISONS:
            x, y = _beside(y, x), _beside(x, y)
        return apply(name, x, y)

    function.__doc__ = meaning
    function.__name__ = name
    public(function)

    def in_place(self: Tensor, y: Any) -> Tensor:
        apply_in_place(name + "_", self, y)
        return self

    in_place.__doc__ = f"As ``{name}``, written over the tensor."
    in_place.__name__ = name + "_"
    method(in_place)


for _name, _meaning in _UNARY.items():
    _define_unary(_name, _meaning)
for _name, _meaning in _BINARY.items():
    _define_binary(_name, _meaning)

_DIVISIONS = {None: "div", "floor": "floor_divide", "trunc": "trunc_divide"}


def _division(rounding_mode: str | None) -> str:
    if rounding_mode is not None and not isinstance(rounding_mode, str):
        raise TypeError(f"div: rounding_mode must be a str or None, not {type(rounding_mode).__name__}")
    if rounding_mode not in _DIVISIONS:
        raise Error(f"div: rounding_mode is {rounding_mode!r}, expected None, 'floor' or 'trunc'")
    return _DIVISIONS[rounding_mode]


@public
def _div(x: Any, y: Any, *, rounding_mode: str | None = None) -> Tensor:
    """x / y; integers are divided as float32. With ``rounding_mode`` "floor" or "trunc" the quotient is
    rounded, and integers stay integers.
    """
    return apply(_division(rounding_mode), x, y)


@method
def _div_(self: Tensor, y: Any, *, rounding_mode: str | None = None) -> Tensor:
    """As ``div``, written over the tensor."""
    apply_in_place(_division(rounding_mode) + "_", self, y)
    return self


def _gelu_name(approximate: str) -> str:
    return (
        "gelu_tanh"
        if _checks.choice("gelu: approximate", approximate, ("none", "tanh")) == "tanh"
        else "gelu"
    )


@public
def _gelu(x: Any, approximate: str = "none") -> Tensor:
    """x times the normal distribution's share below x: by the error function, or with ``approximate="tanh"``
    as GPT-2 approximates it.
    """
    return apply(_gelu_name(approximate), x)


def _clamp_arguments(x: Any, least: Any, most: Any) -> tuple[Any, ...]:
    if least is None and most is None:
        raise Error("clamp: neither min nor max is given, expected at least one")
    if most is None:
        return ("clamp_min", x, least)
    if least is None:
        return ("clamp_max", x, most)
    return ("clamp", x, least, most)


@public
def _clamp(x: Any, min: Any = None, max: Any = None) -> Tensor:
    """x, but ``min`` where it is below and ``max`` where it is above; ``max`` wins where min > max."""
    return apply(*_clamp_arguments(x, min, max))


@method
def _clamp_(self: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """As ``clamp``, written over the tensor."""
    name, *arguments = _clamp_arguments(self, min, max)
    apply_in_place(name + "_", *arguments)
    return self


def _where(condition: Any, x: Any, y: Any) -> Tensor:
    """x where the bools of ``condition`` are true, y elsewhere."""
    return apply("where", condition, x, y)


FUNCTIONS["where"] = _named(_where, "where")


@method
def _copy_(self: Tensor, source: Any) -> Tensor:
    """Writes ``source``, broadcast and converted, over the tensor."""
    apply_in_place("copy_", self, source)
    return self


@method
def _fill_(self: Tensor, value: Any) -> Tensor:
    """Writes one number over every element."""
    apply_in_place("copy_", self, value)
    return self


@method
def _zero_(self: Tensor) -> Tensor:
    """Writes 0 over every element."""
    apply_in_place("copy_", self, 0)
    return self


# ---- Signs -----------------------------------------------

_SIGNS = {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "pow",
}


def _is_operand(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        # Left to NumPy, it would become an array, and without a word of it.
        raise TypeError(
            "an array of NumPy beside a tensor, expected two tensors or two arrays: kael.tensor makes one"
        )
    return isinstance(value, (Tensor, bool, int, float, np.bool_, np.integer, np.floating))


def _define_sign(sign: str, name: str) -> None:
    def forwards(self: Tensor, other: Any) -> Tensor:
        return apply(name, self, other) if _is_operand(other) else NotImplemented

    def backwards(self: Tensor, other: Any) -> Tensor:
        return apply(name, other, self) if _is_operand(other) else NotImplemented

    def in_place(self: Tensor, other: Any) -> Tensor:
        if not _is_operand(other):
            return NotImplemented
        apply_in_place(name + "_", self, other)
        return self

    for prefix, function in (("", forwards), ("r", backwards), ("i", in_place)):
        function.__name__ = f"__{prefix}{sign}__"
        method(function)


def _define_comparison(name: str) -> None:
    def compare(self: Tensor, other: Any) -> Tensor:
        return apply(name, self, _beside(self, other)) if _is_operand(other) else NotImplemented

    compare.__name__ = f"__{name}__"
    method(compare)


for _sign, _name in _SIGNS.items():
    _define_sign(_sign, _name)
for _name in _COMPARISONS:
    _define_comparison(_name)


def _bools_only(name: str, *operands: Any) -> None:
    for operand in operands:
        dtype = operand.dtype if isinstance(operand, Tensor) else type(operand).__name__
        if dtype not in ("bool", "bool_"):
            raise Error(f"{name} of {dtype}, expected bool: logical_and, logical_or and the like take all")


def _define_bool_sign(sign: str, symbol: str, name: str) -> None:
    def combine(self: Tensor, other: Any) -> Tensor:
        if not _is_operand(other):
            return NotImplemented
        _bools_only(symbol, self, other)
        return apply(name, self, other)

    for prefix in ("", "r"):
        combine.__name__ = f"__{prefix}{sign}__"
        method(combine)


for _sign, _symbol, _name in (
    ("and", "&", "logical_and"),
    ("or", "|", "logical_or"),
    ("xor", "^", "logical_xor"),
):
    _define_bool_sign(_sign, _symbol, _name)


@method
def __invert__(self: Tensor) -> Tensor:
    _bools_only("~", self)
    return apply("logical_not", self)


@method
def __neg__(self: Tensor) -> Tensor:
    return apply("neg", self)


@method
def __pos__(self: Tensor) -> Tensor:
    return self


@method
def __abs__(self: Tensor) -> Tensor:
    return apply("abs", self)


# ---- Views and copies -----------------------------------------------

_INT32 = (-(2**31), 2**31 - 1)


def dimension(name: str, value: Any) -> int:
    """``value`` as a dimension, whose range the library knows."""
    return _checks.integer(f"{name}: a dimension", value, *_INT32)


#: One dimension, several, or None for all.
Dimensions = int | list[int] | tuple[int, ...] | None


def dimensions(name: str, dim: Any) -> list[int] | None:
    """``dim`` as a list, or None for all."""
    if dim is None:
        return None
    if isinstance(dim, (list, tuple)):
        return [dimension(name, value) for value in dim]
    return [dimension(name, dim)]


def integers(name: str, values: tuple[Any, ...]) -> list[int]:
    """The integers of ``f(1, 2)`` or of ``f((1, 2))``."""
    return [
        _checks.integer(f"{name}: a size", value, -_checks.INT64_MAX, _checks.INT64_MAX)
        for value in _checks.unpacked(values)
    ]


@public
def _transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """A view with two dimensions exchanged."""
    return apply_view("transpose", x, dimension("transpose", dim0), dimension("transpose", dim1))


@method
def _permute(self: Tensor, *dims: Any) -> Tensor:
    """A view with the dimensions in another order."""
    return apply_view("permute", self, integers("permute", dims))


@public
def _unsqueeze(x: Tensor, dim: int) -> Tensor:
    """A view with a new dimension of size 1."""
    return apply_view("unsqueeze", x, dimension("unsqueeze", dim))


@public
def _squeeze(x: Tensor, dim: Dimensions = None) -> Tensor:
    """A view without those of the dimensions named whose size is 1; without ``dim``, without every such
    dimension.
    """
    return apply_view("squeeze", x, dimensions("squeeze", dim))


@method
def _expand(self: Tensor, *sizes: Any) -> Tensor:
    """A view that repeats dimensions of size 1, and adds dimensions in front; -1 keeps a size."""
    return apply_view("expand", self, integers("expand", sizes))


@method
def _reshape(self: Tensor, *shape: Any) -> Tensor:
    """Another shape of as many elements, one of which may be -1: a view where the strides allow it, else a
    copy.
    """
    return apply("reshape", self, integers("reshape", shape))


@method
def _select(self: Tensor, dim: int, index: int) -> Tensor:
    """The view at one index of a dimension, without that dimension."""
    where = _checks.integer("select: index", index, -_checks.INT64_MAX, _checks.INT64_MAX)
    return apply_view("select", self, dimension("select", dim), where)


@method
def _contiguous(self: Tensor) -> Tensor:
    """Itself when its elements stand in row-major order without gaps, else a copy in which they do."""
    return apply("contiguous", self)


@public
def _clone(x: Tensor) -> Tensor:
    """A copy with memory of its own."""
    return apply("clone", x)


@method
def _to(self: Tensor, dtype: str) -> Tensor:
    """As another dtype, by the rules of docs/tensors.md; itself when it is that already."""
    return apply("to", self, dtype_number("to", dtype))


def dtype_number(name: str, dtype: Any) -> int:
    """The number of a dtype given by name."""
    if not isinstance(dtype, str):
        raise TypeError(f"{name}: dtype must be a str, not {type(dtype).__name__}")
    if dtype not in _signatures.DTYPES:
        raise Error(f"{name}: dtype is {dtype!r}, expected one of {', '.join(_signatures.DTYPES)}")
    return _signatures.DTYPES.index(dtype)


def _define_cast(name: str, dtype: str) -> None:
    def cast(self: Tensor) -> Tensor:
        return apply("to", self, _signatures.DTYPES.index(dtype))

    cast.__doc__ = f"As {dtype}: itself when it is that already, else a converted copy."
    cast.__name__ = name
    method(cast)


for _name, _dtype in (
    ("float", "float32"),
    ("double", "float64"),
    ("half", "float16"),
    ("bfloat16", "bfloat16"),
    ("long", "int64"),
    ("int", "int32"),
    ("bool", "bool"),
):
    _define_cast(_name, _dtype)


def _transposed(self: Tensor) -> Tensor:
    """A view with the dimensions in reverse order."""
    return apply_view("permute", self, list(reversed(range(self.ndim))))


attach("T", property(_transposed))


# ---- Numbers -----------------------------------------------


@method
def __bool__(self: Tensor) -> bool:
    if self.numel() != 1:
        raise Error(
            f"the truth of a tensor of shape {list(self.shape)}, expected one element: use any() or all()"
        )
    return bool(self.item())


@method
def __float__(self: Tensor) -> float:
    return float(self.item())


@method
def __format__(self: Tensor, format_spec: str) -> str:
    """Of one element as of a Python number, ``f"{loss:.3f}"``; without a specification ``str``."""
    return format(self.item(), format_spec) if format_spec else str(self)


@method
def __int__(self: Tensor) -> int:
    return int(self.item())


@method
def __index__(self: Tensor) -> int:
    if self.numel() != 1 or "int" not in self.dtype:
        raise TypeError(
            f"a tensor of {self.dtype} and shape {list(self.shape)} as an integer, expected one element of "
            "an integer dtype"
        )
    return int(self.item())
