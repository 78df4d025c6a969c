"""Functions of each element. Two arrays are first converted to the dtype in which they meet, whatever their
shapes; numbers are taken as they are.
"""

from __future__ import annotations

from typing import Any

import kael
from kael._tensor import Tensor
from kael.array_api._dtypes import _result_type
from kael.array_api._registry import array, standard

_UNARY = {
    "abs": "abs",
    "ceil": "ceil",
    "cos": "cos",
    "exp": "exp",
    "expm1": "expm1",
    "floor": "floor",
    "isfinite": "isfinite",
    "isinf": "isinf",
    "isnan": "isnan",
    "log": "log",
    "log1p": "log1p",
    "logical_not": "logical_not",
    "negative": "neg",
    "reciprocal": "reciprocal",
    "round": "round",
    "sign": "sign",
    "sin": "sin",
    "sqrt": "sqrt",
    "square": "square",
    "tanh": "tanh",
    "trunc": "trunc",
}

_BINARY = {
    "add": "add",
    "divide": "div",
    "equal": "eq",
    "floor_divide": "floor_divide",
    "greater": "gt",
    "greater_equal": "ge",
    "less": "lt",
    "less_equal": "le",
    "logical_and": "logical_and",
    "logical_or": "logical_or",
    "logical_xor": "logical_xor",
    "maximum": "maximum",
    "minimum": "minimum",
    "multiply": "mul",
    "not_equal": "ne",
    "pow": "pow",
    "remainder": "remainder",
    "subtract": "sub",
}


def _define_unary(name: str, operator: str) -> None:
    def function(x: Tensor, /) -> Tensor:
        return getattr(kael, operator)(array(name, x))

    function.__name__ = name
    function.__doc__ = getattr(kael, operator).__doc__
    standard(function)


def _define_binary(name: str, operator: str) -> None:
    def function(x1: Any, x2: Any, /) -> Tensor:
        return getattr(kael, operator)(*meeting(name, x1, x2))

    function.__name__ = name
    function.__doc__ = getattr(kael, operator).__doc__
    standard(function)


def meeting(name: str, *operands: Any) -> list[Any]:
    """Arrays and numbers, the arrays converted to the dtype in which all meet."""
    if not any(isinstance(operand, Tensor) for operand in operands):
        raise TypeError(f"{name}: expected an array among the operands")
    dtype = _result_type(*operands)
    return [operand.to(dtype) if isinstance(operand, Tensor) else operand for operand in operands]


for _name, _operator in _UNARY.items():
    _define_unary(_name, _operator)
for _name, _operator in _BINARY.items():
    _define_binary(_name, _operator)


@standard
def _positive(x: Tensor, /) -> Tensor:
    """A copy."""
    return array("positive", x).clone()


@standard
def _clip(x: Tensor, /, min: Any = None, max: Any = None) -> Tensor:
    """The array, in its dtype, with ``min`` in place of what is below and ``max`` of what is above."""
    result = array("clip", x)
    for limit, operator in ((min, kael.maximum), (max, kael.minimum)):
        if limit is not None:
            result = operator(result, limit.to(x.dtype) if isinstance(limit, Tensor) else limit)
    return result.clone() if result is x else result


@standard
def _where(condition: Tensor, x1: Any, x2: Any, /) -> Tensor:
    """``x1`` where the condition is true, and ``x2`` elsewhere."""
    return kael.where(array("where", condition), *meeting("where", x1, x2))
