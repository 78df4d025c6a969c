"""Hooks: Python functions that see, and may replace, the gradient of a tensor."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable
from typing import Any

from kael import _callbacks, _signatures
from kael._immortal import immortal
from kael._library import check_status, native
from kael._tensor import Tensor

Hook = Callable[[Tensor], Tensor | None]

# By the number that the library hands back as user_data. An entry lives as long as the library may call it.
_hooks: dict[int, Hook] = {}
_numbers = itertools.count(1)


class HookHandle:
    """What :meth:`kael.Tensor.register_hook` answers with."""

    __module__ = "kael"

    def __init__(self, tensor: Tensor, number: int) -> None:
        self._tensor = tensor
        self._number = number

    def remove(self) -> None:
        """Ends the calls of the hook. A second time does nothing."""
        pointer = self._tensor._owned.pointer()
        check_status(native().kept.kael_tensor_remove_hook(pointer, self._number))


def register_hook(self: Tensor, hook: Hook) -> HookHandle:
    """Calls ``hook`` with the gradient of this tensor in every backward pass, before anything else sees it. A
    tensor that it returns, of the same shape and dtype, takes the gradient's place; None leaves it. What it
    raises ends the walk, and is raised by ``backward``.
    """
    if not callable(hook):
        raise TypeError(f"hook must be callable, not {type(hook).__name__}")
    key = next(_numbers)
    _hooks[key] = hook
    number = ctypes.c_int64()
    check_status(
        native().kept.kael_tensor_add_hook(
            self._owned.pointer(), _on_gradient, _on_release, key, ctypes.byref(number)
        )
    )
    return HookHandle(self, number.value)


def _call(gradient: Any, replacement: Any, key: int) -> int:
    def call() -> None:
        tensor = Tensor._filled_by(lambda out: _put(out, gradient))
        answer = _hooks[key](tensor)
        if answer is None:
            return
        if not isinstance(answer, Tensor):
            raise TypeError(f"a hook must return a kael.Tensor or None, not {type(answer).__name__}")
        check_status(native().kept.kael_tensor_share(answer._owned.pointer(), replacement))

    return 0 if _callbacks.note_failure(call) else 1


def _put(out: Any, pointer: Any) -> int:
    out[0] = pointer
    return _signatures.OK


_on_gradient = immortal(_signatures.GradientCallback(_call))
# A function that is not written in Python: it works also when the interpreter ends.
_on_release = immortal(_signatures.ReleaseCallback(_hooks.pop))
