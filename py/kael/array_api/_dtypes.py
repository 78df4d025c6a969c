"""Data types, which are their names, and what becomes of several."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import kael
from kael import _signatures
from kael._tensor import Tensor
from kael.array_api._registry import array, on_cpu, standard

boolean = "bool"
int8, int32, int64 = "int8", "int32", "int64"
uint8 = "uint8"
float32, float64 = "float32", "float64"
# Names that no array has as its dtype: test suites look them up before anything else.
complex64, complex128 = "complex64", "complex128"

KINDS = {
    "bool": {boolean},
    "signed integer": {int8, int32, int64},
    "unsigned integer": {uint8},
    "integral": {int8, int32, int64, uint8},
    "real floating": {float32, float64, "float16", "bfloat16"},
    "complex floating": {complex64, complex128},
}
KINDS["numeric"] = KINDS["integral"] | KINDS["real floating"] | KINDS["complex floating"]


def known(name: str, dtype: Any) -> str:
    """``dtype``, which must be a dtype of the namespace."""
    if not isinstance(dtype, str):
        raise TypeError(f"{name}: a dtype must be a str, not {type(dtype).__name__}")
    if dtype not in _signatures.DTYPES and dtype not in KINDS["complex floating"]:
        raise kael.Error(f"{name}: {dtype!r} is no dtype, expected one of {', '.join(_signatures.DTYPES)}")
    return dtype


@standard
def _isdtype(dtype: str, kind: str | tuple[str, ...]) -> bool:
    """Whether the dtype is the one named, or one of the kind or kinds."""
    known("isdtype", dtype)
    wanted = kind if isinstance(kind, tuple) else (kind,)
    for one in wanted:
        if one not in KINDS:
            known("isdtype: kind", one)
    return any(dtype in KINDS.get(one, {one}) for one in wanted)


@standard
def _result_type(*arrays_and_dtypes: Any) -> str:
    """The dtype in which arrays and dtypes meet, whatever their shapes. Numbers have none of their own: they
    count only where they are of a higher kind. int8 and uint8 meet in int32, for there is no int16.
    """
    tensors = []
    numbers = []
    for given in arrays_and_dtypes:
        if isinstance(given, Tensor):
            tensors.append(kael.zeros(0, dtype=given.dtype))
        elif isinstance(given, str):
            tensors.append(kael.zeros(0, dtype=known("result_type", given)))
        else:
            numbers.append(given)
    if not tensors:
        raise kael.Error("result_type: no arrays and no dtypes, expected one or more")
    # What does the arithmetic knows the table; cat takes bools, too.
    together = kael.cat(tensors)
    for number in numbers:
        together = kael.where(kael.zeros(0, dtype="bool"), together, number)
    return together.dtype


@standard
def _can_cast(from_: Any, to: str, /) -> bool:
    """Whether the dtype of an array, or a dtype, is converted to another one without being asked for."""
    source = from_.dtype if isinstance(from_, Tensor) else known("can_cast", from_)
    known("can_cast", to)
    kinds = ("bool", "integral", "real floating")
    if not any(source in KINDS[kind] and to in KINDS[kind] for kind in kinds):
        return False
    return _result_type(source, to) == to


@standard
def _astype(x: Tensor, dtype: str, /, *, copy: bool = True, device: Any = None) -> Tensor:
    """The array as another dtype; itself when it has it and no copy is asked for."""
    on_cpu("astype", device)
    converted = array("astype", x).to(dtype)
    return converted.clone() if copy and converted.dtype == x.dtype else converted


class FloatLimits(NamedTuple):
    """What ``finfo`` answers."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: str


class IntegerLimits(NamedTuple):
    """What ``iinfo`` answers."""

    bits: int
    max: int
    min: int
    dtype: str


@standard
def _finfo(type: Any, /) -> FloatLimits:
    """The limits of a dtype of floats, given itself or as an array of it."""
    dtype = type.dtype if isinstance(type, Tensor) else known("finfo", type)
    if dtype == "bfloat16":
        most = float.fromhex("0x1.fep127")
        return FloatLimits(16, 2.0**-7, most, -most, 2.0**-126, dtype)
    if dtype not in KINDS["real floating"]:
        raise kael.Error(f"finfo: {dtype}, expected a dtype of floats")
    limits = np.finfo(dtype)
    most, least, smallest = float(limits.max), float(limits.min), float(limits.smallest_normal)
    return FloatLimits(limits.bits, float(limits.eps), most, least, smallest, dtype)


@standard
def _iinfo(type: Any, /) -> IntegerLimits:
    """The limits of a dtype of integers, given itself or as an array of it."""
    dtype = type.dtype if isinstance(type, Tensor) else known("iinfo", type)
    if dtype not in KINDS["integral"]:
        raise kael.Error(f"iinfo: {dtype}, expected a dtype of integers")
    limits = np.iinfo(dtype)
    return IntegerLimits(limits.bits, int(limits.max), int(limits.min), dtype)
