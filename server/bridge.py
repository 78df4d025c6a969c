"""Tokens from the thread that generates them to the event loop.

A :class:`Bridge` belongs to one generation. Its worker side runs on the worker thread: ``generate``, then
``end``. All the rest runs on the loop's thread.

- :class:`RingBridge` is for :class:`kael.GPT`: the library writes tokens to its ring and no Python runs on
  the generating thread, which beside a busy thread would wait 5 ms and more for the interpreter lock, at
  every token.
- :class:`CallbackBridge` is for every other object with ``generate``.

The loop takes tokens as they come, whatever the client does, so a client that reads slowly holds up nothing
but its own answer, at the price of two numbers per token.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import secrets
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import kael

_NANOSECONDS = 1e-9

# The seed of a request without one. Every reader of JSON holds a number of 53 bits exactly, so that the seed
# in the answer can be sent again.
_SEED_BITS = 53

# A woken loop takes a processor from the threads that generate, for 1 to 2 % of the time of a token of
# GPT-2 small. Where nobody waits for the single token, it looks no more often than this.
_GATHERING_SECONDS = 0.1


def has_ring(model: Any) -> bool:
    """Whether ``model`` sends its tokens through a native ring, as :class:`kael.GPT` does."""
    return hasattr(model, "generate_into")


def open_bridge(model: Any, max_tokens: int, shutting_down: threading.Event, each_at_once: bool) -> Bridge:
    """The bridge for what ``model`` can do. Without ``each_at_once`` tokens may come several at a time."""
    if has_ring(model):
        return RingBridge(max_tokens, each_at_once)
    return CallbackBridge(max_tokens, shutting_down)


class Bridge(ABC):
    """What both kinds share: the loop's side."""

    def __init__(self, max_tokens: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._waiting: list[int] = []
        self._stamps: list[int] = []  # of the tokens, in nanoseconds of the monotonic clock
        self._max_tokens = max_tokens
        self._closed = False
        self.left_at: float | None = None  # the time.monotonic() at which the bridge was abandoned
        self.seed: int | None = None  # the one used, where that is known
        self.ended = False  # no token comes after those that are waiting
        self.error: BaseException | None = None

    # -- Worker

    @abstractmethod
    def generate(self, model: Any, prompt: list[int], max_tokens: int, **options: Any) -> None:
        """Runs the model. Raises what it raises."""

    @abstractmethod
    def end(self, error: BaseException | None) -> None:
        """The worker's last touch, after which the loop sees the end, or the error."""

    @property
    @abstractmethod
    def generated(self) -> int:
        """How many tokens were made, once ``generate`` is over."""

    # -- Loop

    @property
    def received(self) -> int:
        """How many tokens have come."""
        return len(self._stamps)

    async def has_more(self, seconds: float) -> bool:
        """Whether ``take`` would return, or raise, at once. Waits up to ``seconds`` for that."""
        if not self._waiting and not self.ended:
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._changed.wait()
        return bool(self._waiting) or self.ended

    async def take(self) -> list[int]:
        """The tokens that have come since the last call, at least one; none at the end. Raises what the
        worker failed with, or what the bridge was abandoned with."""
        while not self._waiting and not self.ended:
            self._changed.clear()
            await self._changed.wait()
        if not self._waiting and self.error is not None:
            raise self.error
        taken, self._waiting = self._waiting, []
        return taken

    @abstractmethod
    def stop(self) -> None:
        """Asks the generation to end at its next token, or layer of the prompt."""

    def abandon(self, error: BaseException) -> None:
        """Stops, and listens no longer: ``take`` raises ``error`` from now on."""
        if not self.ended:
            self.left_at = time.monotonic()
            self._waiting = []
            self._finish(error)
        self.close()

    def close(self) -> None:
        """Gives up the loop's side, stopping a generation that still runs. A second call does nothing."""
        if not self._closed:
            self._closed = True
            self._close()

    @abstractmethod
    def _close(self) -> None:
        """What ``close`` does the first time."""

    def _receive(self, records: Iterable[tuple[int, int]]) -> None:
        for token, nanoseconds in records:
            self._stamps.append(nanoseconds)
            self._waiting.append(token)
        self._changed.set()

    def _finish(self, error: BaseException | None) -> None:
        self.ended = True
        self.error = error
        self._changed.set()

    @property
    def prefill_seconds(self) -> float | None:
        """What the model took for the prompt and the first token, once it has ended and where it says so."""
        return None

    @property
    def cached_tokens(self) -> int | None:
        """For how many tokens of the prompt the model had what it computes, once it has ended and where it
        says so."""
        return None

    @property
    def guessed_tokens(self) -> int | None:
        """How many of the new tokens were guessed and took no pass of the model, once it has ended and where
        it says so."""
        return None

    def first_token_seconds(self, started: float) -> float | None:
        """From ``started``, a time.monotonic(), to the first token."""
        return self._stamps[0] * _NANOSECONDS - started if self._stamps else None

    def seconds_between_tokens(self) -> list[float]:
        return [(later - earlier) * _NANOSECONDS for earlier, later in itertools.pairwise(self._stamps)]

    def seconds_per_token(self) -> float | None:
        """Mean time between two tokens."""
        if self.received < 2:
            return None
        return (self._stamps[-1] - self._stamps[0]) * _NANOSECONDS / (self.received - 1)

    def remaining_seconds(self, more_tokens: int = 0) -> float:
        """What is left, if the generation goes on at its pace to max_tokens, and so many tokens further.
        0 when that is not known."""
        pace = self.seconds_per_token() or 0.0
        own_tokens = 0 if self.ended else self._max_tokens - self.received
        return pace * (own_tokens + more_tokens)


class CallbackBridge(Bridge):
    """For a plain Python model: its ``on_token`` hands each token to the loop."""

    def __init__(self, max_tokens: int, shutting_down: threading.Event) -> None:
        super().__init__(max_tokens)
        self._shutting_down = shutting_down
        self._stopping = False
        self._stop_tokens: tuple[int, ...] = ()
        self._generated = 0

    def generate(self, model: Any, prompt: list[int], max_tokens: int, **options: Any) -> None:
        self.seed = options.get("seed")
        self._stop_tokens = options.pop("stop_tokens", ())  # which the model does not need to know
        model.generate(prompt, max_tokens, on_token=self._on_token, **options)

    def _on_token(self, token: Any) -> bool:
        number = int(token.item() if hasattr(token, "item") else token)
        self._generated += 1
        self._call(self._receive_one, number, time.monotonic_ns())
        if number in self._stop_tokens:
            self._stopping = True
        return not self._stopping and not self._shutting_down.is_set()

    def _receive_one(self, token: int, nanoseconds: int) -> None:
        if not self.ended:
            self._receive([(token, nanoseconds)])

    def end(self, error: BaseException | None) -> None:
        self._call(self._receive_end, error)

    def _receive_end(self, error: BaseException | None) -> None:
        if not self.ended:
            self._finish(error)

    def _call(self, *call: Any) -> None:
        try:
            self._loop.call_soon_threadsafe(*call)
        except RuntimeError:  # the loop is closed: nobody listens any more
            self._stopping = True

    @property
    def generated(self) -> int:
        return self._generated

    def stop(self) -> None:
        self._stopping = True

    def _close(self) -> None:
        self._stopping = True


class RingBridge(Bridge):
    """For the library's own model: tokens come through a native ring, whose descriptor the loop watches."""

    def __init__(self, max_tokens: int, each_at_once: bool) -> None:
        super().__init__(max_tokens)
        self._each_at_once = each_at_once
        self._ring = kael.TokenRing(max_tokens)
        self._result: kael.Generation | None = None
        self._failure: BaseException | None = None
        self._watch()

    def _watch(self) -> None:
        if not self._closed:
            self._loop.add_reader(self._ring.fileno(), self._on_readable)

    def generate(self, model: Any, prompt: list[int], max_tokens: int, **options: Any) -> None:
        self.seed = options.setdefault("seed", secrets.randbits(_SEED_BITS))
        self._result = model.generate_into(self._ring, prompt, max_tokens, **options)

    def end(self, error: BaseException | None) -> None:
        self._failure = error
        self._ring.finish()
        if not self._each_at_once:  # the loop may be looking away
            with contextlib.suppress(RuntimeError):  # it is closed: nobody listens any more
                self._loop.call_soon_threadsafe(self._on_readable)

    @property
    def generated(self) -> int:
        # A generation that failed has announced some tokens all the same; those that the loop has taken are a
        # lower bound.
        return self.received if self._result is None else len(self._result.tokens)

    @property
    def prefill_seconds(self) -> float | None:
        return self._result.prompt_seconds if self._result is not None and self._result.tokens else None

    @property
    def cached_tokens(self) -> int | None:
        return None if self._result is None else self._result.cached_tokens

    @property
    def guessed_tokens(self) -> int | None:
        return None if self._result is None else self._result.guessed_tokens

    def _on_readable(self) -> None:
        if self._closed:
            return
        records, done = self._ring.drain()
        self._receive(records)
        if done:
            self._finish(self._failure)
            self.close()
        elif not self._each_at_once:
            self._loop.remove_reader(self._ring.fileno())
            self._loop.call_later(_GATHERING_SECONDS, self._watch)

    def stop(self) -> None:
        self._ring.stop()

    def _close(self) -> None:
        self._loop.remove_reader(self._ring.fileno())
        self._ring.stop()
        self._ring.close()
