"""What a long command is at, on a terminal."""

from __future__ import annotations

import sys


class Progress:
    """One line on standard error, where that is a terminal, that says what is being measured."""

    def __init__(self) -> None:
        self._visible = sys.stderr is not None and sys.stderr.isatty()
        self._length = 0

    def show(self, text: str) -> None:
        """Puts ``text`` in the place of what the line said."""
        if self._visible:
            print("\r" + text.ljust(self._length), end="", file=sys.stderr, flush=True)
            self._length = len(text)

    def note(self, text: str) -> None:
        """A line that stays."""
        self.clear()
        if self._visible:
            print(text, file=sys.stderr)

    def clear(self) -> None:
        """Leaves an empty line, for whatever is written next."""
        if self._length:
            self.show("")
            print("\r", end="", file=sys.stderr, flush=True)
