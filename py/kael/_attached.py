"""What :class:`kael.Tensor` gets from the modules that need it defined.

scripts/make-type-stubs tells type checkers of it.
"""

from __future__ import annotations

from typing import Any

from kael._tensor import Tensor

#: The methods and properties, by name.
ATTRIBUTES: dict[str, Any] = {}


def attach(name: str, attribute: Any) -> None:
    """Makes ``attribute`` the method or the property ``Tensor.name``."""
    ATTRIBUTES[name] = attribute
    setattr(Tensor, name, attribute)
