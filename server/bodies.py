"""Reads the body of a POST up to a limit, and refuses a longer one so that its sender gets to see the answer.

Tornado's own limit answers with a bare 400. Answering at once and closing does not work either: what the
client still sends meets a closed socket, and the reset that it gets in return discards the answer. So the
answer goes out at once and the rest of the body is read and dropped, within bounds.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from tornado.web import HTTPError, stream_request_body

from .errors import ClientLeft, RequestError, body_too_large
from .handlers import BaseHandler

# What a refused client may still send, in bytes and in time, and how many of them may do so at once: two that
# send as fast as they can already cost the others 46 ms.
DRAIN_BYTES = 8 * 1024 * 1024
DRAIN_SECONDS = 2.0
MAX_DRAINS = 4

# Above every length that is read here, so that Tornado's own limit never adds a second answer. A number of
# more digits is left to it, like one that is no number.
_TORNADO_LIMIT = 1 << 62
_MAX_LENGTH_DIGITS = 18

# Of an answer, what is written at once: a client that takes so much makes progress.
SLICE_BYTES = 64 * 1024

# nginx's word for a client that closed its request.
CLIENT_CLOSED_REQUEST = 499


@stream_request_body
class BodyHandler(BaseHandler, ABC):
    """A handler for POST alone."""

    ALLOW = "POST, OPTIONS"

    @abstractmethod
    async def answer(self, body: bytes) -> None:
        """Answers a request by its whole body."""

    @abstractmethod
    def refuse(self, error: RequestError) -> None:
        """Writes the answer of ``error`` without finishing it, and counts it."""

    def initialize(self) -> None:
        self._limit = self.application.server_settings.max_body_bytes
        self._body = bytearray()
        self._received = 0
        self._refused = False
        self._drain_timer: asyncio.TimerHandle | None = None
        self._has_come = False
        # The time.monotonic() at which the client's connection ended.
        self._left: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    async def prepare(self) -> None:
        if self.request.method != "POST":
            super().prepare()
            if self._finished or self.request.method == "OPTIONS":
                return
            raise HTTPError(405)
        self.http_connection.set_max_body_size(_TORNADO_LIMIT)
        length = self.request.headers.get("Content-Length", "")
        waits = self._settle_expectation()
        is_number = length.isascii() and length.isdigit() and len(length) <= _MAX_LENGTH_DIGITS
        refusal = self.access_refusal()
        if refusal is None and is_number and int(length) > self._limit:
            refusal = body_too_large(self._limit)
        if refusal is not None:
            # A client that waits for leave to send will not: there is nothing to read, and flushing without
            # finishing would make Tornado give it leave.
            await self._refuse_body(refusal, drain=not waits)

    def _settle_expectation(self) -> bool:
        """Whether the client waits for leave to send. Tornado gives it after ``prepare``, by the header."""
        headers = self.request.headers
        waits = headers.get("Expect", "").lower() == "100-continue"
        has_body = headers.get("Content-Length", "0") != "0" or "Transfer-Encoding" in headers
        if waits and has_body:
            headers["Expect"] = "100-continue"  # Tornado knows the word in small letters
        else:
            headers.pop("Expect", None)
        return waits

    def data_received(self, chunk: bytes) -> Any:
        self._received += len(chunk)
        if self._refused:
            if self._received > DRAIN_BYTES:
                self._close()
        elif self._received > self._limit:
            return self._refuse_body(body_too_large(self._limit), drain=True)
        else:
            self._body += chunk
        return None

    async def _refuse_body(self, error: RequestError, drain: bool) -> None:
        self._refused = True
        self._body.clear()
        self.refuse(error)
        self.set_header("Connection", "close")
        if not drain or self.application.draining_bodies >= MAX_DRAINS:
            self.finish()  # in the middle of a body, which makes Tornado close the connection
            return
        self.application.draining_bodies += 1
        self._drain_timer = asyncio.get_running_loop().call_later(DRAIN_SECONDS, self._close)
        await self.flush()

    async def post(self) -> None:
        if self._finished:  # the client left at that moment
            return
        self._has_come = True
        if not self._refused:
            await self.answer(bytes(self._body))
        elif not self._finished:
            self._end_drain()
            self.finish()
            self._close()

    async def send(self, data: str | bytes, may_stall: Callable[[], bool] = lambda: False) -> None:
        """Writes, and waits until the system has taken it. Raises :class:`ClientLeft` when the client leaves,
        or takes nothing for ``--stall-seconds``, at whose begin ``may_stall`` did not say that it may."""
        body = data.encode() if isinstance(data, str) else data
        seconds = self.application.server_settings.stall_seconds
        for begin in range(0, len(body) or 1, SLICE_BYTES):
            self.write(body[begin : begin + SLICE_BYTES])
            flushed = self.flush()
            while True:
                waits_in_vain = not may_stall()
                await first_of(flushed, self._left, seconds=seconds)
                if self._left.done():  # first: Tornado calls a write that was cut off complete
                    raise ClientLeft
                if flushed.done():
                    flushed.result()
                    break
                if waits_in_vain:
                    self.stream.close()
                    raise ClientLeft

    def stop_waiting(self) -> None:
        """The server shuts down and cannot wait any longer for a client that does not read."""
        self.stream.close()

    def _close(self) -> None:
        self.stream.close()

    def _end_drain(self) -> None:
        if self._drain_timer is not None:
            self._drain_timer.cancel()
            self._drain_timer = None
            self.application.draining_bodies -= 1

    def on_connection_close(self) -> None:
        self._end_drain()
        super().on_connection_close()
        if not self._left.done():
            self._left.set_result(time.monotonic())
        if not self._has_come and not self._finished:
            self.break_off()

    def break_off(self) -> None:
        """The body has not come whole: the connection has ended, or Tornado ended it, with 400, for there was
        no sense in the body. Nobody is answered any more; the log has its line."""
        if not self._refused:
            self.set_status(400)
        self.finish()


async def first_of(*futures: asyncio.Future[Any], seconds: float | None = None) -> None:
    """Waits until one of them is done, or the time is over."""
    await asyncio.wait(set(futures), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
