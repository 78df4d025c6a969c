"""Text from tokens, piece by piece, up to a stop string."""

from __future__ import annotations

import codecs
from collections.abc import Iterable
from typing import Any

from kael import _checks
from kael._errors import Error, ErrorCode

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


class TextStream:
    """Turns the tokens of one generation into text as soon as it is certain.

    A character may be spread over several tokens, and so may a stop string: what could still become one of
    them is held back, and nothing else. What comes out does not depend on how the text is divided into
    tokens. Bytes that are no UTF-8 become U+FFFD, and so does an id that the model has and its vocabulary
    lacks. One thread at a time.
    """

    __module__ = "kael"

    def __init__(self, tokenizer: Any, stop: str | Iterable[str] = ()) -> None:
        """``tokenizer`` is a :class:`kael.BpeTokenizer`, or anything with ``decode(ids) -> bytes``. The text
        ends before the first of the ``stop`` strings that is complete. Raises :class:`kael.Error` for one
        that is empty or holds a lone surrogate, which no text has.
        """
        self._tokenizer = tokenizer
        self._stop = _checked_stop(stop)
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        self._released = 0
        self._stopped = False

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found: no text comes any more."""
        return self._stopped

    @property
    def released(self) -> int:
        """How many characters have come out."""
        return self._released

    @property
    def known(self) -> int:
        """How many characters have come out or are held back: where the text of the next token begins."""
        return self._released + len(self._held)

    def feed(self, token: int) -> str:
        """The text that has become certain with ``token``; often none."""
        return self._advance(self._utf8.decode(self.bytes_of(token)), is_last=False)

    def end(self) -> str:
        """What was held back, when no token comes any more."""
        return self._advance(self._utf8.decode(b"", final=True), is_last=True)

    def bytes_of(self, token: int) -> bytes:
        """What a token stands for, by itself."""
        try:
            decoded: bytes = self._tokenizer.decode([token])
        except Error as error:
            if error.code != ErrorCode.INVALID_ARGUMENT:
                raise
            # A model may have more ids than its vocabulary: padding, which is no text but no failure either.
            return _REPLACEMENT
        return decoded

    def _advance(self, new: str, is_last: bool) -> str:
        if self._stopped:
            return ""
        text = self._held + new
        certain = self._before_stop(text)
        if certain is not None:
            self._stopped = True
        else:
            certain = text if is_last else text[: len(text) - self._uncertain(text)]
        self._held = "" if self._stopped else text[len(certain) :]
        self._released += len(certain)
        return certain

    def _before_stop(self, text: str) -> str | None:
        """What stands before the stop string that is complete first."""
        found = [(start + len(stop), start) for stop in self._stop if (start := text.find(stop)) >= 0]
        return text[: min(found)[1]] if found else None

    def _uncertain(self, text: str) -> int:
        """The length of the longest end of ``text`` with which a stop string begins."""
        return max((_overlap(text, stop) for stop in self._stop), default=0)


def _overlap(text: str, stop: str) -> int:
    lengths = range(min(len(text), len(stop) - 1), 0, -1)
    return next((length for length in lengths if text.endswith(stop[:length])), 0)


def _checked_stop(stop: str | Iterable[str]) -> tuple[str, ...]:
    strings = (stop,) if isinstance(stop, str) else tuple(stop)
    for string in strings:
        if not isinstance(string, str):
            raise TypeError(f"a stop string must be a str, not {type(string).__name__}")
        _checks.text("a stop string", string)
        if not string:
            raise Error("a stop string is empty, expected at least one character")
    return strings
