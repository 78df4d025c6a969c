"""What the namespace has, for those who ask."""

from __future__ import annotations

from typing import Any

import kael
from kael import _signatures
from kael.array_api._dtypes import KINDS
from kael.array_api._registry import on_cpu

_STANDARD = ("bool", "int8", "int32", "int64", "uint8", "float32", "float64")


class Info:
    """What ``__array_namespace_info__`` answers."""

    def capabilities(self) -> dict[str, Any]:
        """Masks as indices, shapes that depend on values, and the largest number of dimensions."""
        return {
            "boolean indexing": True,
            "data-dependent shapes": True,
            "max dimensions": _signatures.MAX_RANK,
        }

    def default_device(self) -> str:
        return "cpu"

    def default_dtypes(self, *, device: Any = None) -> dict[str, str]:
        """By kind; there is no complex one."""
        on_cpu("default_dtypes", device)
        return {"real floating": "float32", "integral": "int64", "indexing": "int64"}

    def devices(self) -> list[str]:
        return ["cpu"]

    def dtypes(self, *, device: Any = None, kind: str | tuple[str, ...] | None = None) -> dict[str, str]:
        """Those of the standard that arrays have, or those of the kinds named."""
        on_cpu("dtypes", device)
        wanted = (kind,) if isinstance(kind, str) else kind
        for one in wanted or ():
            if one not in KINDS:
                raise kael.Error(f"dtypes: kind is {one!r}, expected one of {', '.join(KINDS)}")
        return {
            name: name for name in _STANDARD if wanted is None or any(name in KINDS[one] for one in wanted)
        }


def __array_namespace_info__() -> Info:
    """What the namespace has."""
    return Info()
