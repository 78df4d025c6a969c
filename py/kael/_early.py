"""What ``python -m kael`` needs before all else: a signal that comes during the imports ends it in one line.

The interpreter imports the package, and with it NumPy, before it comes to ``kael/__main__.py``: that would be
too late. ``kael._cli`` replaces the handlers when everything is there.
"""

from __future__ import annotations

import signal
import sys


def _interrupted(*_: object) -> None:
    if sys.stderr is not None:  # it is None where it was closed from the start
        print("python -m kael: interrupted", file=sys.stderr)
    sys.exit(0)


def _runs_the_command_line() -> bool:
    """Whether the interpreter imports the package for ``python -m kael``: ``sys.argv[0]`` is ``-m`` then, and
    only until it has found ``kael/__main__.py``.
    """
    arguments = len(sys.argv)
    return sys.argv[:1] == ["-m"] and sys.orig_argv[-arguments] in ("kael", "-mkael")


if _runs_the_command_line():
    for _number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(_number) is not signal.SIG_IGN:  # as nohup and a shell's & want it
            signal.signal(_number, _interrupted)
