"""Tensors on memory that belongs to someone else: no copy, and the owner stays as long as a tensor does."""

from __future__ import annotations

import ctypes
import itertools
from typing import Any

import numpy as np

from kael import _signatures
from kael._errors import Error
from kael._immortal import immortal
from kael._library import native
from kael._tensor import Tensor

# What the library has borrowed, by a number that is not 0: ctypes hands a null pointer over as None.
_borrowed: dict[int, np.ndarray] = {}
_numbers = itertools.count(1)
# A function that is not written in Python: no interrupt can end up in it and get lost.
_release = immortal(_signatures.ReleaseCallback(_borrowed.pop))


def from_numpy(array: np.ndarray) -> Tensor:
    """The memory of a NumPy array as a tensor, without a copy: writes are seen on both sides, and the tensor
    keeps the array alive. Of a read-only array a read-only tensor.

    Raises :class:`kael.Error` for an array with negative strides, strides that are no multiples of the size
    of an element, foreign byte order or a dtype that tensors do not have: ``kael.tensor`` copies those.
    """
    if not isinstance(array, np.ndarray):
        raise TypeError(f"from_numpy: argument 1 is {type(array).__name__}, expected an array of NumPy")
    if array.dtype.name not in _signatures.DTYPES:
        raise Error(
            f"from_numpy: there is no tensor of {array.dtype.name}, expected one of "
            f"{', '.join(_signatures.DTYPES)}"
        )
    return _borrow("from_numpy", array, array.dtype.name)


def frombuffer(buffer: Any, *, dtype: str, count: int = -1, offset: int = 0) -> Tensor:
    """The memory of an object with the buffer protocol (``bytes``, ``bytearray``, ``memoryview``, ``mmap``)
    as a tensor with one dimension, without a copy: ``count`` elements (-1: as many as there are) from byte
    ``offset`` on.
    """
    if not isinstance(dtype, str):
        raise TypeError(f"frombuffer: dtype must be a str, not {type(dtype).__name__}")
    if dtype not in _signatures.DTYPES:
        raise Error(f"frombuffer: dtype is {dtype!r}, expected one of {', '.join(_signatures.DTYPES)}")
    stored = "uint16" if dtype == "bfloat16" else dtype
    try:
        array = np.frombuffer(buffer, stored, count, offset)
    except ValueError as error:
        raise Error(f"frombuffer: {error}") from None
    return _borrow("frombuffer", array, dtype)


def _borrow(name: str, array: np.ndarray, dtype: str) -> Tensor:
    item = array.itemsize
    if not array.dtype.isnative:
        raise Error(
            f"{name}: an array in the other byte order, expected this machine's: kael.tensor copies it"
        )
    if array.ndim > _signatures.MAX_RANK:
        raise Error(f"{name}: an array of {array.ndim} dimensions, expected at most {_signatures.MAX_RANK}")
    if any(stride < 0 or stride % item for stride in array.strides):
        raise Error(
            f"{name}: an array with strides of {list(array.strides)} bytes, expected multiples of {item} "
            f"that are not negative: kael.tensor copies it"
        )
    reach = sum((size - 1) * stride for size, stride in zip(array.shape, array.strides, strict=True))
    numbers = ctypes.c_int64 * _signatures.MAX_RANK
    shape, strides = numbers(*array.shape), numbers(*(stride // item for stride in array.strides))
    number = next(_numbers)
    _borrowed[number] = array
    try:
        return Tensor._filled_by(
            lambda out: native().kept.kael_tensor_from_memory(
                _signatures.DTYPES.index(dtype),
                shape,
                strides,
                array.ndim,
                array.ctypes.data,
                reach + item if array.size else 0,
                not array.flags.writeable,
                _release,
                number,
                out,
            )
        )
    except BaseException:
        _borrowed.pop(number, None)
        raise
