"""What an engine is to the measurement.

A module of ``peers.engines`` imports its library at the top, and has:

    load(source, folder, dtype, threads)     an Engine; from the checkpoint in ``source``, or from ``folder``

One of the same name in ``peers.converters``, for a library that does not read checkpoints, has:

    convert(checkpoint, folder, dtype)       writes into an empty folder what ``load`` reads
"""

from __future__ import annotations

import abc
import time
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Answer:
    """Greedy tokens, and how long they took."""

    tokens: list[int]
    prompt_seconds: float  # from the call to the first token
    decode_seconds: float  # from the first token to the last


class Engine(Protocol):
    """A model that is loaded."""

    def generate(self, prompt: list[int], count: int) -> Answer:
        """``count`` tokens after ``prompt``, each the most likely one."""


class Stamps:
    """Tokens with the times at which they came."""

    def __init__(self) -> None:
        self._tokens: list[int] = []
        self._times = [time.perf_counter()]

    def add(self, token: int) -> None:
        self._times.append(time.perf_counter())
        self._tokens.append(token)

    def answer(self) -> Answer:
        begin, first, last = self._times[0], self._times[1], self._times[-1]
        return Answer(self._tokens, first - begin, last - first)


class Stepwise(abc.ABC):
    """The generation of a library that computes one step for a call."""

    @abc.abstractmethod
    def forget(self) -> None:
        """Begins a new text."""

    @abc.abstractmethod
    def step(self, ids: list[int]) -> int:
        """The most likely token after the text so far and ``ids``, which become part of it."""

    def generate(self, prompt: list[int], count: int) -> Answer:
        stamps = Stamps()
        self.forget()
        token = self.step(prompt)
        stamps.add(token)
        for _ in range(count - 1):
            token = self.step([token])
            stamps.add(token)
        return stamps.answer()
