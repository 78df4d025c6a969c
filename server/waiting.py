"""Requests that wait for the slot, as many as the operator lets."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from dataclasses import dataclass
from typing import Any

from .errors import BUSY_STATUS, ClientLeft, RequestError, shutting_down
from .generator import Generator


@dataclass(frozen=True, eq=False)
class _Turn:
    given: asyncio.Future[None]  # done once the slot is the waiting request's
    max_tokens: int


class WaitingRoom:
    """First come, first served. Loop."""

    def __init__(self, generator: Generator, places: int) -> None:
        self._generator = generator
        self._places = places
        self._turns: deque[_Turn] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None  # once somebody has asked
        generator.on_release = self._on_release
        generator.metrics.count_waiting(self.__len__)

    def __len__(self) -> int:
        return len(self._turns)

    async def reserve(self, max_tokens: int, left: asyncio.Future[Any]) -> None:
        """Takes the slot, after all who came earlier. Raises :class:`RequestError` when there is no place to
        wait (429) or the slot will not be given any more (503), :class:`ClientLeft` once ``left`` is done."""
        self._loop = asyncio.get_running_loop()
        try:
            if self._turns:
                raise self._generator.busy(sum(turn.max_tokens for turn in self._turns))
            self._generator.reserve()
        except RequestError as refusal:
            if refusal.status != BUSY_STATUS or len(self._turns) >= self._places:
                raise
            await self._wait(max_tokens, left)

    async def _wait(self, max_tokens: int, left: asyncio.Future[Any]) -> None:
        turn = _Turn(asyncio.get_running_loop().create_future(), max_tokens)
        self._turns.append(turn)
        try:
            await asyncio.wait({turn.given, left}, return_when=asyncio.FIRST_COMPLETED)
            if left.done():
                raise ClientLeft
            turn.given.result()
        except BaseException:
            if turn in self._turns:
                self._turns.remove(turn)
            elif turn.given.exception() is None:  # the slot came in the moment in which nobody wanted it more
                self._generator.release()
            raise

    def _on_release(self) -> None:
        """Any thread. Even where nobody waits: the loop may be about to let somebody."""
        if self._places and self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed, and nobody waits any more
                self._loop.call_soon_threadsafe(self._give_turn)

    def _give_turn(self) -> None:
        if self._turns:
            with contextlib.suppress(RequestError):  # taken in the meantime, and thus released again
                self._generator.reserve()
                self._turns.popleft().given.set_result(None)

    def dismiss(self) -> None:
        """The server shuts down: whoever waits is told."""
        while self._turns:
            self._turns.popleft().given.set_exception(shutting_down())
