"""What goes into an answer: the text of its tokens, and what became of its generation."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Any

import kael

from .bridge import Bridge
from .generator import Generator
from .request import GenerateRequest

# The schema of the counts of tokens, which all answers have alike.
USAGE: dict[str, Any] = {
    "type": "object",
    "required": ["prompt_tokens", "completion_tokens", "total_tokens"],
    "properties": {
        "prompt_tokens": {"type": "integer"},
        "completion_tokens": {"type": "integer"},
        "total_tokens": {"type": "integer"},
    },
}

# Of a time or a rate: the same request again differs in fewer.
_MEANINGFUL_DIGITS = 4


def _rounded(figure: float) -> float:
    return float(f"{figure:.{_MEANINGFUL_DIGITS}g}")


@dataclass(frozen=True)
class TextToken:
    """A token of an answer."""

    token: int
    offset: int  # characters of the answer before it
    said: kael.TokenLogprob | None  # by the model; None for the first of a prompt, which nothing precedes


@dataclass(frozen=True)
class Part:
    """A part of an answer's text."""

    text: str
    tokens: list[TextToken]  # whose text begins in it; none unless log probabilities are asked for


class Answer:
    """One generation as its client sees it: text, counts, times, the reason of its end. Loop."""

    def __init__(
        self, generator: Generator, request: GenerateRequest, prompt: list[int], tokenize_seconds: float
    ):
        self._generator = generator
        self.request = request
        self._prompt = prompt
        self._stop_tokens = generator.stop_tokens(request)
        self._tokenize_seconds = tokenize_seconds
        self._started = time.monotonic()
        self._stream = kael.TextStream(generator.tokenizer, request.stop)
        self._echo: str | None = None  # once it is in the text
        self._unplaced: deque[TextToken] = deque()  # in no part yet
        self._last: int | None = None
        self._timed_out = False
        self.logprobs = self._room_for_logprobs()
        self.tokens = 0

    def _room_for_logprobs(self) -> kael.Logprobs | None:
        request = self.request
        if request.logprobs is None:
            return None
        prompt_tokens = len(self._prompt) if request.echo else 0
        return kael.Logprobs(request.max_tokens, request.logprobs, prompt_tokens)

    def feed(self, tokens: list[int]) -> list[Part]:
        """The parts that are certain with some more tokens. Those behind a stop do not count."""
        parts = self._echo_parts()
        for token in tokens:
            if not self.stopped:
                parts.append(self._part_of(token))
        return [part for part in parts if part.text or part.tokens]

    def end(self) -> list[Part]:
        """The parts that are left when the generation has ended."""
        parts = self._echo_parts()
        text = self._stream.end()
        tokens = self._begun_tokens()
        if not self._stream.stopped:
            tokens += self._unplaced  # which stand for no text
            self._unplaced.clear()
        parts.append(Part(text, tokens))
        return [part for part in parts if part.text or part.tokens]

    @property
    def stopped(self) -> bool:
        """Whether a stop token or a stop string was found, so that no more tokens are needed."""
        return self._stream.stopped or self._last in self._stop_tokens

    def time_out(self) -> None:
        """The request's time is over."""
        self._timed_out = True

    def _part_of(self, token: int) -> Part:
        index, self._last = self.tokens, token
        self.tokens += 1
        if token in self._stop_tokens:  # which ends the generation and is no text
            return Part("", [])
        if self.logprobs is not None:
            offset = len(self._echo or "") + self._stream.known
            self._unplaced.append(TextToken(token, offset, self.logprobs.token(index)))
        text = self._stream.feed(token)
        return Part(text, self._begun_tokens())

    def _begun_tokens(self) -> list[TextToken]:
        """The tokens that are in no part yet and whose text begins in what has come out."""
        end = len(self._echo or "") + self._stream.released
        begun = []
        while self._unplaced and self._unplaced[0].offset < end:
            begun.append(self._unplaced.popleft())
        return begun

    def _echo_parts(self) -> list[Part]:
        """The prompt, the first time. Its log probabilities are there once the generation has a token."""
        if self._echo is not None or not self.request.echo:
            return []
        prompt = self.request.prompt
        if isinstance(prompt, str) and self.logprobs is None:
            self._echo = prompt
            return [Part(prompt, [])]
        stream = kael.TextStream(self._generator.tokenizer)
        texts, tokens = [], []
        for index, token in enumerate(self._prompt):
            if self.logprobs is not None:
                said = _said_of_prompt(self.logprobs, index)
                tokens.append(TextToken(token, stream.known, said))
            texts.append(stream.feed(token))
        texts.append(stream.end())
        self._echo = prompt if isinstance(prompt, str) else "".join(texts)
        return [Part(self._echo, tokens)]

    def bytes_of(self, token: int) -> bytes:
        """What a token stands for."""
        return self._stream.bytes_of(token)

    @property
    def seconds(self) -> float:
        """Since the start of the generation."""
        return _rounded(time.monotonic() - self._started)

    @property
    def finish_reason(self) -> str:
        if self.stopped:
            return "stop"
        if self.tokens >= self.request.max_tokens:
            return "length"
        if self._timed_out:
            return "timeout"
        return "shutdown" if self._generator.shutting_down.is_set() else "stop"

    @property
    def outcome(self) -> str:
        """As the metrics count it."""
        return "cancelled" if self.finish_reason == "shutdown" else "ok"

    @property
    def usage(self) -> dict[str, Any]:
        return {
            "prompt_tokens": len(self._prompt),
            "completion_tokens": self.tokens,
            "total_tokens": len(self._prompt) + self.tokens,
        }

    def details(self, bridge: Bridge) -> dict[str, Any]:
        pace = bridge.seconds_per_token()
        timings = {
            "tokenize_seconds": self._tokenize_seconds,
            "prefill_seconds": bridge.prefill_seconds,
            "first_token_seconds": bridge.first_token_seconds(self._started),
            "seconds_per_token": pace,
            "tokens_per_second": 1.0 / pace if pace else None,
        }
        return {
            "finish_reason": self.finish_reason,
            "seed": bridge.seed,
            "usage": self.usage,
            "timings": {
                "cached_tokens": bridge.cached_tokens,
                "guessed_tokens": bridge.guessed_tokens,
                **{name: None if figure is None else _rounded(figure) for name, figure in timings.items()},
            },
        }


def _said_of_prompt(logprobs: kael.Logprobs, index: int) -> kael.TokenLogprob | None:
    if index == 0:
        return None
    try:
        return logprobs.prompt_token(index)
    except kael.Error:  # the generation was stopped before it had come so far
        return None
