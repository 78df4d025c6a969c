"""``python -m server`` in a checkout, ``kael-server`` once installed."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from . import signals


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit code."""
    signals.end_the_process()  # before the imports, which take their time
    from .arguments import PROGRAM, parse

    options = parse(arguments)
    try:
        from .command import run
    except ModuleNotFoundError as error:
        text = f"the package {error.name} is missing: run scripts/serve, which installs what the server needs"
        print(f"{PROGRAM}: {text}", file=sys.stderr)
        return 1
    return run(options)


if __name__ == "__main__":
    sys.exit(main())
