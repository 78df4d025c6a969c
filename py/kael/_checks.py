"""Arguments, checked before ctypes can wrap, truncate or reinterpret them.

The rule of the package: a wrong type is a ``TypeError``; a value out of range is a :class:`kael.Error`.
Values that fit their C type are left to the library, which knows what they mean.
"""

from __future__ import annotations

import math
import operator
import os
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kael import _signatures
from kael._errors import Error, ErrorCode

INT64_MAX = 2**63 - 1
UINT64_MAX = 2**64 - 1
INT32_MAX = 2**31 - 1

# How many lists of token ids may stand in one another before it is not worth looking further.
_DEEPEST_IDS = 8


def integer(name: str, value: Any, low: int, high: int) -> int:
    """``value`` as an int in [low, high]. A bool is not an integer here."""
    if isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be an integer, not {value!r}")
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be an integer, not {_kind(value)}") from None
    if not low <= number <= high:
        raise Error(f"{name} is {short(number)}, expected {low} to {high}")
    return number


def unpacked(values: tuple[Any, ...]) -> tuple[Any, ...]:
    """The values of ``f(1, 2)`` or of ``f((1, 2))``."""
    if len(values) == 1 and isinstance(values[0], (list, tuple)):
        return tuple(values[0])
    return values


def number(name: str, value: Any) -> float:
    """``value`` as a finite float."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        shown = repr(value) if isinstance(value, (bool, np.bool_)) else _kind(value)
        raise TypeError(f"{name} must be a number, not {shown}")
    try:
        result = float(value)
    except OverflowError:
        result = math.inf
    if not math.isfinite(result):
        raise Error(f"{name} is {result}, expected a finite number")
    return result


def flag(name: str, value: Any) -> bool:
    """``value``, which must be True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise TypeError(f"{name} must be True or False, not {_kind(value)}")
    return bool(value)


def path(name: str, value: Any) -> bytes:
    """The bytes of a path, given as str, bytes or os.PathLike."""
    try:
        return os.fsencode(value)
    except TypeError:
        raise TypeError(f"{name} must be a path (str, bytes or os.PathLike), not {_kind(value)}") from None
    except UnicodeEncodeError as error:
        raise Error(f"{name} cannot be a path: {error}") from None


def folder(name: str, value: Any) -> bytes:
    """The bytes of the path of a folder that exists, where models are looked for."""
    found = path(name, value)
    if not os.path.isdir(found):
        raise Error(
            f"{os.fsdecode(found) or 'an empty path'} is no folder, expected the path of one with a model: "
            "python -m kael download gets one",
            ErrorCode.NOT_FOUND,
        )
    return found


def text(name: str, value: Any) -> bytes:
    """UTF-8 of a str, or the bytes themselves."""
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    if not isinstance(value, str):
        raise TypeError(f"{name} must be str or bytes, not {_kind(value)}")
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        surrogate = ord(value[error.start])
        raise Error(
            f"{name} holds the lone surrogate U+{surrogate:04X} at character {error.start}, "
            "which UTF-8 cannot express: expected text, or bytes"
        ) from None


def choice(name: str, value: Any, allowed: Iterable[str]) -> str:
    """``value``, which must be one of a few words."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {_kind(value)}")
    words = list(allowed)
    if value not in words:
        raise Error(f"{name} is {value!r}, expected {' or '.join(map(repr, words))}")
    return value


def device(value: Any) -> None:
    """The device must be one that this build has."""
    if not isinstance(value, str):
        raise TypeError(f"device must be a str, not {_kind(value)}")
    if value != "cpu":
        hint = f": {value!r} is a dtype, dtype={value!r}" if value in _signatures.WEIGHT_FORMATS else ""
        raise Error(
            f"device {value!r} is not available in this build, expected 'cpu'{hint}", ErrorCode.UNSUPPORTED
        )


def token_ids(name: str, ids: Any, ranks: tuple[int, ...] = (1,)) -> np.ndarray:
    """Token ids as a contiguous int64 array of one of the ``ranks``. Whether they are in the vocabulary is
    the library's question.
    """
    if isinstance(ids, (str, bytes, bytearray)):
        raise TypeError(f"{name} must be token ids, not {_kind(ids)}: encode the text first")
    if not hasattr(ids, "__array__"):
        ids = _listed(name, ids)
        _refuse_bools(name, ids, _DEEPEST_IDS)
    try:
        array = np.asarray(ids)
    except ValueError:
        raise Error(f"{name} has rows of different lengths") from None
    if array.size == 0 and array.dtype == np.float64:
        array = array.astype(np.int64)
    array = of_int64s(name, array)
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must be integers, not {array.dtype.name}")
    if array.dtype == np.uint64 and array.size and int(array.max()) > INT64_MAX:
        raise Error(f"{name} holds {int(array.max())}, outside the range of int64")
    if array.ndim not in ranks:
        expected = " or ".join(str(rank) for rank in ranks)
        raise Error(f"{name} has {array.ndim} dimensions, expected {expected}")
    return np.ascontiguousarray(array, dtype=np.int64)


def of_int64s(name: str, array: np.ndarray) -> np.ndarray:
    """An array of Python ints as one of int64; any other as it is."""
    if array.dtype != object or not array.size:
        return array
    for item in array.flat:
        if isinstance(item, bool) or not isinstance(item, (int, np.integer)):
            return array
    try:
        return array.astype(np.int64)
    except OverflowError:
        raise Error(f"{name} holds an integer outside the range of int64") from None


def mapping(name: str, value: Any) -> Mapping[Any, Any]:
    """``value``, which must have names and values."""
    if not isinstance(value, Mapping):
        raise TypeError(f"{name} must be a mapping, not {_kind(value)}")
    return value


def _listed(name: str, ids: Any) -> Any:
    if isinstance(ids, (list, tuple)):
        return ids
    try:
        return list(ids)
    except TypeError:
        raise TypeError(f"{name} must be a sequence of token ids, not {_kind(ids)}") from None


def _refuse_bools(name: str, ids: Iterable[Any], depth: int) -> None:
    if not depth:
        raise Error(f"{name} has more than {_DEEPEST_IDS} dimensions, or contains itself")
    for item in ids:
        if isinstance(item, (bool, np.bool_)):
            raise TypeError(f"{name} must be integers, not {item!r}")
        if isinstance(item, (list, tuple)):
            _refuse_bools(name, item, depth - 1)


def _kind(value: Any) -> str:
    return "None" if value is None else type(value).__name__


def short(number: int) -> str:
    """A number as people write it; one with thousands of digits only by its size."""
    return str(number) if number.bit_length() <= 256 else f"a number of {number.bit_length()} bits"
