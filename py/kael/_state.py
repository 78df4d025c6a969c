"""Tensors by name, copied into others of the same names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kael import _checks
from kael._autograd import no_grad
from kael._errors import Error
from kael._tensor import Tensor


def copy_state(own: Mapping[str, Tensor], state: Mapping[str, Any], strict: bool) -> None:
    """Copies the values of ``state`` into the tensors of ``own``. With ``strict`` both must have the same
    names; shapes must always be the same. Nothing is changed when something does not fit.
    """
    _checks.mapping("state", state)
    missing, surplus = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    if _checks.flag("strict", strict) and (missing or surplus):
        raise Error(f"the state does not fit: missing {missing}, surplus {surplus}, expected neither")
    common = [name for name in own if name in state]
    for name in common:
        if not isinstance(state[name], Tensor):
            raise TypeError(f"the state of {name!r} must be a kael.Tensor, not {type(state[name]).__name__}")
        if state[name].shape != own[name].shape:
            raise Error(
                f"the state of {name!r} has shape {list(state[name].shape)}, expected {list(own[name].shape)}"
            )
        if own[name].is_read_only:
            raise Error(f"the memory of {name!r} is read-only, expected memory that may be written")
    with no_grad():
        for name in common:
            own[name].copy_(state[name])
