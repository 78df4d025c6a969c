"""Nodes of the graph that operators record."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

from kael import _callbacks, _hooks, _signatures
from kael._attached import attach
from kael._handles import NotCopied, Owned, filled
from kael._immortal import immortal
from kael._library import answered_text, check_status, native
from kael._tensor import Tensor

_Pointer = ctypes.POINTER(_signatures.NodeHandle)
NodeHook = Callable[[tuple[Tensor | None, ...], tuple[Tensor]], Sequence[Tensor | None] | None]
NodePrehook = Callable[[tuple[Tensor]], Sequence[Tensor | None] | Tensor | None]


class Node(NotCopied):
    """One recorded operator, as in :attr:`kael.Tensor.grad_fn`, or the end of a path, which adds to the
    ``grad`` of a leaf. Two are equal if they stand for the same operator.

    It keeps what the operator needs alive. Any thread may use and drop one; hooks are not to be added or
    removed while another thread walks the graph.
    """

    __module__ = "kael"
    __slots__ = ("_identity", "_owned")
    _identity: int
    _owned: Owned

    def __init__(self) -> None:
        raise TypeError("kael.Node has no constructor: see kael.Tensor.grad_fn")

    def name(self) -> str:
        """``"MulBackward"``, ``"AccumulateGrad"``, ..."""
        pointer = self._owned.pointer()
        return answered_text(lambda *out: native().kept.kael_node_name(pointer, *out))

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each operand, where its gradient goes (None where none is wanted), and 0, as every node takes
        one gradient.
        """
        pointer, count = self._owned.pointer(), ctypes.c_int64()
        check_status(native().kept.kael_node_next(pointer, None, -1, ctypes.byref(count)))
        nodes = _filled(
            count.value,
            lambda out: native().kept.kael_node_next(pointer, out, count.value, ctypes.byref(count)),
        )
        return tuple((node, 0) for node in nodes)

    def register_hook(self, hook: NodeHook) -> _hooks.HookHandle:
        """Calls ``hook(grad_inputs, grad_outputs)`` in every backward pass after this node ran: the gradient
        of each operand, None where there is none, and the one gradient that the node took. As many that it
        returns, of the same shapes and dtypes, take the place of the former; None leaves them. What it raises
        ends the walk, and is raised by ``backward``.
        """
        kept = native().kept
        return _hooks.add_hook(
            kept.kael_node_add_hook, kept.kael_node_remove_hook, self._owned, _on_gradients, hook
        )

    def register_prehook(self, hook: NodePrehook) -> _hooks.HookHandle:
        """Calls ``hook(grad_outputs)`` in every backward pass before this node runs, with the one gradient
        that it is about to take. One that it returns, alone or as the one entry of a list, takes its place.
        """
        if not callable(hook):
            raise TypeError(f"hook must be callable, not {type(hook).__name__}")
        kept = native().kept
        return _hooks.add_hook(
            kept.kael_node_add_prehook,
            kept.kael_node_remove_hook,
            self._owned,
            _hooks.on_gradient,
            lambda gradient: _the_one(hook((gradient,))),
        )

    def __eq__(self, other: object) -> bool:
        return self._identity == other._identity if isinstance(other, Node) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._identity)

    def __repr__(self) -> str:
        return f"<kael.Node {self.name()}>"


def grad_fn(self: Tensor) -> Node | None:
    """The recorded operator that made the tensor; None for a leaf."""
    (node,) = _filled(1, lambda out: native().kept.kael_tensor_node(self._owned.pointer(), out))
    return node


attach("grad_fn", property(grad_fn))


def _filled(count: int, call: Callable[[Any], int]) -> list[Node | None]:
    """The nodes whose handles ``call`` writes, None where it writes none."""
    free = native().released.kael_node_free
    owned = filled(_Pointer, count, free, "node", lambda handles: check_status(call(handles)))
    return [None if one is None else _of(one) for one in owned]


def _of(owned: Owned) -> Node:
    node = object.__new__(Node)
    node._owned = owned
    identity = ctypes.c_int64()
    check_status(native().kept.kael_node_identity(owned.pointer(), ctypes.byref(identity)))
    node._identity = identity.value
    return node


def _the_one(answer: Any) -> Any:
    if isinstance(answer, (list, tuple)):
        if len(answer) != 1:
            raise TypeError(f"a prehook must return one gradient, not {len(answer)}")
        return answer[0]
    return answer


def _call(gradients: Any, count: int, taken: Any, replacements: Any, replaces: Any, key: int) -> int:
    def call() -> None:
        grad_inputs = tuple([_hooks.received(gradients[i]) if gradients[i] else None for i in range(count)])
        answer = _hooks.hook_of(key)(grad_inputs, (_hooks.received(taken),))
        if answer is None:
            return
        if not isinstance(answer, (list, tuple)) or len(answer) != count:
            raise TypeError(f"a hook on a node of {count} operands must return as many gradients, or None")
        for index, gradient in enumerate(answer):
            if isinstance(gradient, Tensor):
                place = ctypes.cast(
                    ctypes.addressof(replacements.contents) + index * ctypes.sizeof(replacements.contents),
                    type(replacements),
                )
                check_status(native().kept.kael_tensor_share(gradient._owned.pointer(), place))
            elif gradient is not None:
                raise TypeError(
                    f"gradient {index} must be a kael.Tensor or None, not {type(gradient).__name__}"
                )
        replaces[0] = 1

    return 0 if _callbacks.note_failure(call) else 1


_on_gradients = immortal(_signatures.NodeCallback(_call))
