"""What goes into an answer: the text of its tokens, and what became of its generation."""

from __future__ import annotations

import codecs
import time
from typing import Any

import kael

from .bridge import Bridge
from .generator import Generator
from .request import GenerateRequest

_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()

# Of a time or a rate: the same request again differs in fewer.
_MEANINGFUL_DIGITS = 4


def _rounded(figure: float) -> float:
    return float(f"{figure:.{_MEANINGFUL_DIGITS}g}")


class TextDecoder:
    """Ids to text. A character may be spread over several tokens; its bytes are kept until it is complete."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")

    def feed(self, tokens: list[int]) -> str:
        return self._utf8.decode(self._bytes(tokens))

    def _bytes(self, tokens: list[int]) -> bytes:
        try:
            return self._tokenizer.decode(tokens)
        except kael.Error as error:
            if error.code != kael.ErrorCode.INVALID_ARGUMENT:
                raise
            # A model may have more ids than its vocabulary: padding, which is no text but no failure either.
            if len(tokens) == 1:
                return _REPLACEMENT
            return b"".join(self._bytes([token]) for token in tokens)

    def end(self) -> str:
        return self._utf8.decode(b"", final=True)


class Answer:
    """What becomes of one generation, apart from its text: counts, times, the reason of its end."""

    def __init__(
        self, generator: Generator, request: GenerateRequest, prompt_tokens: int, tokenize_seconds: float
    ):
        self._generator = generator
        self._request = request
        self._stop_tokens = generator.stop_tokens(request)
        self._prompt_tokens = prompt_tokens
        self._tokenize_seconds = tokenize_seconds
        self._started = time.monotonic()
        self._last: int | None = None
        self.tokens = 0

    def text_tokens(self, tokens: list[int]) -> list[int]:
        """Counts tokens, and leaves out the one that ended the generation, which is no text."""
        self.tokens += len(tokens)
        self._last = tokens[-1]
        return tokens[:-1] if self._last in self._stop_tokens else tokens

    @property
    def seconds(self) -> float:
        """Since the start of the generation."""
        return _rounded(time.monotonic() - self._started)

    @property
    def finish_reason(self) -> str:
        if self._last in self._stop_tokens:
            return "stop"
        if self.tokens >= self._request.max_tokens:
            return "length"
        return "shutdown" if self._generator.shutting_down.is_set() else "stop"

    @property
    def outcome(self) -> str:
        """As the metrics count it."""
        return "cancelled" if self.finish_reason == "shutdown" else "ok"

    @property
    def usage(self) -> dict[str, int]:
        return {
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": self.tokens,
            "total_tokens": self._prompt_tokens + self.tokens,
        }

    def details(self, bridge: Bridge) -> dict[str, Any]:
        pace = bridge.seconds_per_token()
        timings = {
            "tokenize_seconds": self._tokenize_seconds,
            "first_token_seconds": bridge.first_token_seconds(self._started),
            "seconds_per_token": pace,
            "tokens_per_second": 1.0 / pace if pace else None,
        }
        return {
            "finish_reason": self.finish_reason,
            "seed": bridge.seed,
            "usage": self.usage,
            "timings": {
                name: None if figure is None else _rounded(figure) for name, figure in timings.items()
            },
        }
