"""Exceptions of Python callbacks that a walk of the library makes: no exception crosses the library, so each
is kept by the thread that walks until the walk is over.
"""

from __future__ import annotations

import threading
from collections.abc import Callable


class _Failures(threading.local):
    first: BaseException | None = None


_failures = _Failures()


def have_failed() -> bool:
    """Whether a callback of this thread's walk has raised."""
    return _failures.first is not None


def note_failure(call: Callable[[], object]) -> bool:
    """Calls; False when that raised, which is kept unless something was before."""
    try:
        call()
    except BaseException as error:
        if _failures.first is None:
            _failures.first = error
        return False
    return True


def raise_failure() -> None:
    """At the end of a walk: raises what the first of its callbacks to fail raised."""
    failure, _failures.first = _failures.first, None
    if failure is not None:
        try:
            raise failure
        finally:
            del failure  # its traceback holds this frame: no cycle
