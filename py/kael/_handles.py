"""Ownership of the library's handles."""

from __future__ import annotations

import ctypes
import operator
import os
from collections.abc import Callable
from typing import Any, ClassVar, NoReturn

from kael._errors import Error

# How often this process is a fork of the one that imported the package.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class NotCopied:
    """What stands for memory of this process: no ``copy``, no ``pickle``."""

    __slots__ = ()

    #: What to do instead.
    _instead: ClassVar[str] = ""

    def __reduce_ex__(self, protocol: Any) -> NoReturn:
        name = type(self).__name__
        raise TypeError(
            f"kael.{name} cannot be copied or pickled: it stands for memory of this process{self._instead}"
        )


class Owned(NotCopied):
    """A native handle that is freed exactly once: by :meth:`free`, or when it is collected, on whatever
    thread.

    It is made around the empty pointer that a call of the library is about to fill: an exception that comes
    from outside just after that call (Ctrl-C) leaves nothing behind. Freeing an empty one does nothing.

    A child made by ``fork`` has a copy of the memory, but not of the threads, and maybe of locks that are
    held: a handle from before the fork is never freed there, the end of the child frees it all.
    """

    __slots__ = ("_forks", "_free", "_once", "_pointer", "_what")

    def __init__(self, pointer: Any, free: Callable[[Any], None], what: str) -> None:
        self._pointer = pointer
        self._once = iter([pointer])
        self._free = free
        self._what = what
        self._forks = _forks  # last: see __del__

    @classmethod
    def closed(cls, what: str) -> Owned:
        """One that holds nothing, as after :meth:`free`."""
        owned = cls(None, lambda _: None, what)
        owned.free()
        return owned

    def pointer(self) -> Any:
        """The handle, or a clear error after :meth:`free`."""
        if not self.is_open:
            raise Error(f"the {self._what} is closed")
        return self._pointer

    @property
    def is_open(self) -> bool:
        return operator.length_hint(self._once) > 0

    @property
    def is_from_before_fork(self) -> bool:
        return self._forks != _forks

    def refuse_after_fork(self) -> None:
        """For what has threads or state that does not survive a fork."""
        if self.is_from_before_fork:
            raise Error(
                f"the {self._what} was made before this process was forked and cannot be used in the child: "
                f"make it after the fork"
            )

    def free(self) -> None:
        if not self.is_from_before_fork:
            # Taking the pointer and freeing it are one step: no other thread and no interrupt comes between.
            list(map(self._free, self._once))

    def __del__(self) -> None:
        if hasattr(self, "_forks"):  # else an interrupt came before it was made, and it is empty
            self.free()


def filled(
    pointer: type[Any], count: int, free: Callable[[Any], None], what: str, call: Callable[[Any], None]
) -> list[Owned | None]:
    """The handles that ``call`` writes to the array of ``count`` pointers that it is given, None for a
    pointer that it leaves empty.
    """
    handles = (pointer * count)()
    # Around the entries themselves, not copies: see Owned.
    owned = [
        Owned(pointer.from_buffer(handles, index * ctypes.sizeof(pointer)), free, what)
        for index in range(count)
    ]
    call(handles)
    return [one if handle else None for one, handle in zip(owned, handles, strict=True)]
