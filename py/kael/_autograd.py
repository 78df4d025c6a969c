"""Gradients: what is recorded, and the walk back.

Names and meanings are PyTorch's (docs/autograd.md). Each thread chooses whether its operators are recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from typing import Any

from kael import _callbacks, _checks, _hooks, _signatures
from kael._attached import attach
from kael._errors import Error
from kael._library import check_status, native
from kael._tensor import Tensor, _HandlePointer


def is_grad_enabled() -> bool:
    """Whether operators of this thread are recorded."""
    return bool(native().kept.kael_grad_enabled())


class set_grad_enabled(contextlib.ContextDecorator):  # as in PyTorch
    """Switches the recording of operators on or off, for this thread: at once, and in a ``with`` statement
    until its end. Also a decorator.
    """

    def __init__(self, mode: bool) -> None:
        self._mode = _checks.flag("mode", mode)
        self._before = is_grad_enabled()
        _switch(self._mode)

    def __call__(self, function: Any) -> Any:
        _switch(self._before)  # what is decorated switches when it is called
        return super().__call__(function)

    def _recreate_cm(self) -> set_grad_enabled:
        return set_grad_enabled(self._mode)

    def __enter__(self) -> None:
        _switch(self._mode)

    def __exit__(self, *_: object) -> None:
        _switch(self._before)


class no_grad(contextlib.ContextDecorator):  # as in PyTorch
    """Inside ``with kael.no_grad():`` no operator of this thread is recorded. Also a decorator."""

    _mode = False

    def __init__(self) -> None:
        self._before: list[bool] = []

    def _recreate_cm(self) -> no_grad:
        return type(self)()

    def __enter__(self) -> None:
        self._before.append(is_grad_enabled())
        _switch(self._mode)

    def __exit__(self, *_: object) -> None:
        _switch(self._before.pop())


class enable_grad(no_grad):  # as in PyTorch
    """Inside ``with kael.enable_grad():`` operators of this thread are recorded. Also a decorator."""

    _mode = True


def _switch(mode: bool) -> None:
    native().kept.kael_set_grad_enabled(mode)


def backward(
    self: Tensor, gradient: Tensor | None = None, retain_graph: bool = False, create_graph: bool = False
) -> None:
    """Adds to the ``grad`` of every leaf that this tensor was computed from. ``gradient`` is that of the
    tensor, of its shape and dtype; without it the tensor must have one element.

    What operators saved is freed, unless ``retain_graph``. With ``create_graph`` the walk is recorded itself,
    so that the gradients can be differentiated again.
    """
    roots, kept = _handles("the tensor", [self])
    gradients, also_kept = _gradients(gradient)
    flags = _flags(retain_graph, create_graph)
    status = native().released.kael_backward(roots, gradients, 1, flags)
    del kept, also_kept
    _callbacks.raise_failure()
    check_status(status)


attach("backward", backward)
attach("register_hook", _hooks.register_hook)


def grad(
    outputs: Tensor | Sequence[Tensor],
    inputs: Tensor | Sequence[Tensor],
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool = False,
    create_graph: bool = False,
    allow_unused: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of the sum of ``outputs`` with respect to each of ``inputs``, which accumulate nowhere.

    ``grad_outputs`` are those of the outputs, 1 for an output of one element. An input that no output depends
    on is an :class:`kael.Error`, or with ``allow_unused`` None.
    """
    roots, kept = _handles("outputs", _as_list(outputs))
    wanted, also_kept = _handles("inputs", _as_list(inputs))
    gradients, kept_too = _gradients(grad_outputs)
    if gradients is not None and len(gradients) != len(roots):
        raise Error(f"{len(gradients)} grad_outputs for {len(roots)} outputs, expected as many")
    flags = _flags(retain_graph, create_graph)
    if _checks.flag("allow_unused", allow_unused):
        flags |= _signatures.ALLOW_UNUSED

    def walk(out: Any) -> int:
        status = native().released.kael_grad(roots, gradients, len(roots), wanted, len(wanted), flags, out)
        _callbacks.raise_failure()
        return int(status)

    results = Tensor._filled_or_none(len(wanted), walk)
    del kept, also_kept, kept_too
    return tuple(results)


def _as_list(tensors: Any) -> list[Any]:
    return [tensors] if isinstance(tensors, Tensor) or tensors is None else list(tensors)


def _handles(name: str, tensors: list[Any]) -> tuple[Any, list[Any]]:
    """Their handles, and what must live as long as those are used."""
    for tensor in tensors:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"{name} must be kael.Tensor, not {type(tensor).__name__}")
    return (_HandlePointer * len(tensors))(*(tensor._owned.pointer() for tensor in tensors)), tensors


def _gradients(gradients: Any) -> tuple[Any, list[Any]]:
    if gradients is None:
        return None, []
    tensors = _as_list(gradients)
    handles = (_HandlePointer * len(tensors))()
    for index, tensor in enumerate(tensors):
        if isinstance(tensor, Tensor):
            handles[index] = tensor._owned.pointer()
        elif tensor is not None:
            raise TypeError(f"a gradient must be a kael.Tensor or None, not {type(tensor).__name__}")
    return handles, tensors


def _flags(retain_graph: bool, create_graph: bool) -> int:
    flags = 0
    if _checks.flag("retain_graph", retain_graph):
        flags |= _signatures.RETAIN_GRAPH
    if _checks.flag("create_graph", create_graph):
        flags |= _signatures.CREATE_GRAPH
    return flags
