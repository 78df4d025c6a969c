"""Calls the library's operators by name."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from kael import _checks, _signatures
from kael._errors import Error, ErrorCode
from kael._library import native
from kael._tensor import Tensor

_NONE, _TENSOR, _TENSORS, _BOOL, _INTEGER, _REAL, _INTEGERS = range(len(_signatures.ARGUMENT_KINDS))
INT64 = range(-(2**63), 2**63)


def apply(name: str, *arguments: Any) -> Tensor:
    """The one result of an operator. Arguments: tensors, numbers, bools, None, lists of integers or tensors.

    A wrong type is a ``TypeError``; whatever the operator refuses is a :class:`kael.Error` that names it.
    """
    (result,) = _apply(native().released.kael_apply, name, 1, arguments)
    return result


def apply_views(name: str, results: int, *arguments: Any) -> tuple[Tensor, ...]:
    """The views that an operator makes, which are so many."""
    return tuple(_apply(native().kept.kael_apply, name, results, arguments))


def apply_pair(name: str, *arguments: Any) -> tuple[Tensor, Tensor]:
    """The two results of an operator that has two."""
    first, second = _apply(native().released.kael_apply, name, 2, arguments)
    return first, second


def apply_view(name: str, *arguments: Any) -> Tensor:
    """As :func:`apply`, for what ends at once: the interpreter lock is kept."""
    (result,) = _apply(native().kept.kael_apply, name, 1, arguments)
    return result


def apply_in_place(name: str, *arguments: Any) -> None:
    """Applies an operator that writes its first argument."""
    _apply(native().released.kael_apply, name, 0, arguments)


def _apply(call: Any, name: str, results: int, arguments: tuple[Any, ...]) -> list[Tensor]:
    packed = (_signatures.Argument * len(arguments))()
    kept = [_pack(name, i, argument, packed[i]) for i, argument in enumerate(arguments)]
    encoded = name.encode()
    made = ctypes.c_int64()
    tensors = Tensor._filled(
        results,
        lambda out: call(encoded, len(encoded), packed, len(packed), out, results, ctypes.byref(made)),
    )
    del kept
    if made.value != results:
        raise Error(f"{name} has {made.value} results, expected {results}", ErrorCode.INTERNAL)
    return tensors


def _pack(name: str, position: int, value: Any, packed: _signatures.Argument) -> Any:
    """Fills ``packed``, and answers what must stay alive during the call."""
    if isinstance(value, Tensor):
        packed.kind = _TENSOR
        packed.tensor = value._owned.pointer()
        return value
    if value is None:
        packed.kind = _NONE
    elif isinstance(value, (bool, np.bool_)):
        packed.kind = _BOOL
        packed.integer = int(value)
    elif isinstance(value, (int, np.integer)):
        if int(value) not in INT64:
            raise Error(f"{name}: {_checks.short(int(value))} does not fit int64, expected -2^63 to 2^63 - 1")
        packed.kind = _INTEGER
        packed.integer = int(value)
    elif isinstance(value, (float, np.floating)):
        packed.kind = _REAL
        packed.real = float(value)
    elif isinstance(value, (list, tuple)):
        return _pack_list(name, position, value, packed)
    else:
        raise TypeError(
            f"{name}: argument {position + 1} is {type(value).__name__}, expected a tensor or a number"
        )
    return None


def _pack_list(name: str, position: int, values: Any, packed: _signatures.Argument) -> Any:
    packed.count = len(values)
    if values and all(isinstance(value, Tensor) for value in values):
        packed.kind = _TENSORS
        handles = (ctypes.POINTER(_signatures.TensorHandle) * len(values))(
            *(value._owned.pointer() for value in values)
        )
        packed.tensors = handles
        return values, handles
    what = f"{name}: an entry of argument {position + 1}"
    numbers = [_checks.integer(what, value, -_checks.INT64_MAX, _checks.INT64_MAX) for value in values]
    packed.kind = _INTEGERS
    array = (ctypes.c_int64 * max(len(numbers), 1))(*numbers)
    packed.integers = array
    return array
