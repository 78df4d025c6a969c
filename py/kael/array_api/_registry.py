"""The functions of the namespace, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import kael
from kael._tensor import Tensor

#: What the namespace exports under the same names.
FUNCTIONS: dict[str, Callable[..., Any]] = {}


def standard(function: Callable[..., Any]) -> Callable[..., Any]:
    """Makes ``_name`` the namespace's ``name``, whatever built-in function is called so."""
    name = function.__name__.removeprefix("_")
    function.__name__ = function.__qualname__ = name
    function.__module__ = "kael.array_api"
    FUNCTIONS[name] = function
    return function


def array(name: str, x: Any) -> Tensor:
    """``x``, which must be an array."""
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: expected an array, not {type(x).__name__}")
    return x


def axes(axis: int | tuple[int, ...] | None, rank: int) -> list[int]:
    """The axes that are meant, all of them by None."""
    if axis is None:
        return list(range(rank))
    return list(axis) if isinstance(axis, tuple) else [axis]


def on_cpu(name: str, device: Any) -> None:
    """Arrays are on the CPU, and nowhere else."""
    if device is not None and device != "cpu":
        raise kael.Error(f"{name}: device is {device!r}, expected 'cpu' or None", kael.ErrorCode.UNSUPPORTED)
