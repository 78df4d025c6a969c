"""Hooks: Python functions that see, and may replace, gradients on their way through a graph."""

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
_hooks: dict[int, Callable[..., Any]] = {}
_numbers = itertools.count(1)


class HookHandle:
    """What :meth:`kael.Tensor.register_hook` and the like of :class:`kael.Node` answer with."""

    __module__ = "kael"

    def __init__(self, remove: Callable[[], int]) -> None:
        self._remove = remove

    def remove(self) -> None:
        """Ends the calls of the hook. A second time does nothing."""
        check_status(self._remove())


def add_hook(add: Any, remove: Any, owned: Any, callback: Any, hook: Callable[..., Any]) -> HookHandle:
    """Gives ``hook`` to what ``owned`` stands for: ``add`` and ``remove`` are the library's functions, and
    ``callback`` is what ``add`` calls.
    """
    if not callable(hook):
        raise TypeError(f"hook must be callable, not {type(hook).__name__}")
    key = next(_numbers)
    _hooks[key] = hook
    number = ctypes.c_int64()
    check_status(add(owned.pointer(), callback, _on_release, key, ctypes.byref(number)))
    return HookHandle(lambda: remove(owned.pointer(), number.value))


def hook_of(key: int) -> Callable[..., Any]:
    """The hook that a callback of the library means by its user_data."""
    return _hooks[key]


def register_hook(self: Tensor, hook: Hook) -> HookHandle:
    """Calls ``hook`` with the gradient of this tensor in every backward pass, before anything else sees it. A
    tensor that it returns, of the same shape and dtype, takes the gradient's place; None leaves it. What it
    raises ends the walk, and is raised by ``backward``.
    """
    kept = native().kept
    return add_hook(kept.kael_tensor_add_hook, kept.kael_tensor_remove_hook, self._owned, on_gradient, hook)


def _call(gradient: Any, replacement: Any, key: int) -> int:
    def call() -> None:
        tensor = received(gradient)
        answer = _hooks[key](tensor)
        if answer is None:
            return
        if not isinstance(answer, Tensor):
            raise TypeError(f"a hook must return a kael.Tensor or None, not {type(answer).__name__}")
        check_status(native().kept.kael_tensor_share(answer._owned.pointer(), replacement))

    return 0 if _callbacks.note_failure(call) else 1


def received(pointer: Any) -> Tensor:
    """The tensor of a handle that the library gave away."""

    def put(out: Any) -> int:
        out[0] = pointer
        return _signatures.OK

    return Tensor._filled_by(put)


# The last graph may outlive this module: what the library calls then is never freed, nor written in Python.
on_gradient = immortal(_signatures.GradientCallback(_call))
_on_release = immortal(_signatures.ReleaseCallback(_hooks.pop))
