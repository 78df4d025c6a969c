"""Ownership of the library's handles."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from kael._errors import Error

# How often this process is a fork of the one that imported the package.
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_count_fork)


class Owned:
    """A native handle that is freed exactly once: by :meth:`free`, or when it is collected, on whatever
    thread.

    A child made by ``fork`` has a copy of the memory, but not of the threads, and maybe of locks that are
    held: a handle from before the fork is never freed there, the end of the child frees it all.
    """

    __slots__ = ("_box", "_forks", "_free", "_what")

    def __init__(self, pointer: Any, free: Callable[[Any], None], what: str) -> None:
        self._box = [pointer]
        self._free = free
        self._what = what
        self._forks = _forks

    def pointer(self) -> Any:
        """The handle, or a clear error after :meth:`free`."""
        try:
            return self._box[0]
        except IndexError:
            raise Error(f"the {self._what} is closed") from None

    @property
    def is_open(self) -> bool:
        return bool(self._box)

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
        try:
            pointer = self._box.pop()  # atomic: of two threads one gets it
        except IndexError:
            return
        if not self.is_from_before_fork:
            self._free(pointer)

    def __del__(self) -> None:
        self.free()
