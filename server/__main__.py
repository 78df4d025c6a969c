"""``python -m server`` in a checkout, ``kael-server`` once installed."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from . import signals

# What the imports, the loop, the signals and one request take.
SPARE_DESCRIPTORS = 14


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit code."""
    signals.end_the_process()  # before the imports, which take their time
    from .arguments import PROGRAM, parse

    options = parse(arguments)
    try:
        _reserve_descriptors()
    except OSError as error:
        needed = f"a server opens {SPARE_DESCRIPTORS} files and connections beside those that are open"
        print(f"{PROGRAM}: {error.strerror}: {needed} (ulimit -n)", file=sys.stderr)
        return 1
    try:
        from .command import run
    except ModuleNotFoundError as error:
        text = f"the package {error.name} is missing: run scripts/serve, which installs what the server needs"
        print(f"{PROGRAM}: {text}", file=sys.stderr)
        return 1
    return run(options)


def _reserve_descriptors() -> None:
    """Without them it would fail later, in many words or in none. Raises OSError."""
    opened: list[int] = []
    try:
        while len(opened) < SPARE_DESCRIPTORS:
            opened.append(os.open(os.devnull, os.O_RDONLY))
    finally:
        for descriptor in opened:
            os.close(descriptor)


if __name__ == "__main__":
    sys.exit(main())
