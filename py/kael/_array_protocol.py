"""What the Python array API standard asks of an array itself, beside what tensors have anyway."""

from __future__ import annotations

import importlib
from typing import Any

from kael._apply import apply_view
from kael._attached import attach
from kael._errors import Error, ErrorCode
from kael._operators import method
from kael._tensor import Tensor

_VERSIONS = ("2021.12", "2022.12", "2023.12", "2024.12")


@method
def __array_namespace__(self: Tensor, *, api_version: str | None = None) -> Any:
    """:mod:`kael.array_api`, which is the same for each version of the standard that it has."""
    if api_version is not None and api_version not in _VERSIONS:
        raise Error(
            f"__array_namespace__: api_version is {api_version!r}, expected one of {', '.join(_VERSIONS)}",
            ErrorCode.UNSUPPORTED,
        )
    return importlib.import_module("kael.array_api")


@method
def _to_device(self: Tensor, device: str, /, *, stream: Any = None) -> Tensor:
    """The tensor itself, for the CPU is where all are."""
    if device != "cpu" or stream is not None:
        raise Error(
            f"to_device: {device!r} with stream {stream!r}, expected 'cpu' and None", ErrorCode.UNSUPPORTED
        )
    return self


def _device(self: Tensor) -> str:
    """``"cpu"``."""
    return "cpu"


def _matrix_transposed(self: Tensor) -> Tensor:
    """A view with the last two dimensions exchanged."""
    return apply_view("transpose", self, -2, -1)


attach("device", property(_device))
attach("mT", property(_matrix_transposed))
