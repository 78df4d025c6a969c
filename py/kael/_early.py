"""What ``python -m kael`` needs before all else: a signal ends it in one line, from the imports on.

The interpreter imports the package, and with it NumPy, before it comes to ``kael/__main__.py``: that would be
too late. Only what has something to finish takes the signals from here, by ``signals_interrupt``.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SIGNALS = (signal.SIGINT, signal.SIGTERM)


def _end(*_: object) -> None:
    """Ends the process here and now. An exception would come out of whatever runs at the moment: an import,
    where others take it for a module that is broken, or a finalizer, where it is printed and dropped.
    """
    try:
        if sys.stderr is not None:  # it is None where it was closed from the start
            os.write(sys.stderr.fileno(), b"python -m kael: interrupted\n")
    finally:
        os._exit(0)


def _handle(handler: object) -> None:
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as nohup and a shell's & want it
            signal.signal(number, handler)  # type: ignore[arg-type]


def signals_end_the_process() -> None:
    """SIGINT and SIGTERM end the process with code 0 and one line. So do those that came before: whoever
    started the process may have blocked them until here.
    """
    _handle(_end)
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


@contextmanager
def signals_interrupt() -> Iterator[None]:
    """Inside, SIGINT and SIGTERM raise KeyboardInterrupt, for who has something to finish."""
    try:
        _handle(signal.default_int_handler)
        yield
    finally:
        _handle(_end)


class Request:
    """What a signal asks for; true once it has come."""

    def __init__(self) -> None:
        self._came = False

    def __bool__(self) -> bool:
        return self._came

    def _take(self, *_: object) -> None:
        if self._came:  # whoever asks twice does not want to wait
            _end()
        self._came = True


@contextmanager
def signals_request() -> Iterator[Request]:
    """Inside, the first SIGINT or SIGTERM makes the request true, for who looks at it now and then; the
    second one ends the process.
    """
    request = Request()
    try:
        _handle(request._take)
        yield request
    finally:
        _handle(_end)


def _runs_the_command_line() -> bool:
    """Whether the interpreter imports the package for ``python -m kael``: ``sys.argv[0]`` is ``-m`` then, and
    only until it has found ``kael/__main__.py``.
    """
    arguments = len(sys.argv)
    return sys.argv[:1] == ["-m"] and sys.orig_argv[-arguments] in ("kael", "-mkael")


if _runs_the_command_line():
    signals_end_the_process()
    if importlib.util.find_spec("numpy") is None:
        sys.exit(f"python -m kael: kael needs the package numpy: {sys.executable} -m pip install numpy")
