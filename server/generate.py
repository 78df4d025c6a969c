"""From the body of a request for a text to its answer, plain or as a stream.

What body and answer look like is said by the endpoints.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from abc import abstractmethod
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, TypeVar

from tornado.iostream import StreamClosedError

from . import errors
from .answer import Answer, Part
from .bodies import CLIENT_CLOSED_REQUEST, BodyHandler, first_of
from .bridge import Bridge
from .errors import ClientLeft, RequestError
from .generator import Generator
from .handlers import to_json
from .logs import fields
from .request import GenerateRequest

log = logging.getLogger(__name__)

_Made = TypeVar("_Made")

# A comment of a stream of events, which its readers skip.
PING = ": ping\n\n"

# The check of a larger one, with thousands of token ids, would hold up the loop.
SMALL_BODY_BYTES = 4096


class GenerationHandler(BodyHandler):
    """One request. Its slot belongs to it until the worker thread runs, and to that from then on."""

    @abstractmethod
    def parse(self, body: bytes) -> GenerateRequest:
        """What the body asks for. Raises :class:`RequestError`."""

    @abstractmethod
    def whole(self, parts: list[Part], answer: Answer, bridge: Bridge) -> dict[str, Any]:
        """The plain answer."""

    @abstractmethod
    def event(self, part: Part, answer: Answer) -> dict[str, Any]:
        """The event for a part of text."""

    @abstractmethod
    def last_events(self, answer: Answer, bridge: Bridge) -> Iterable[dict[str, Any]]:
        """The events between the text and the mark of the end."""

    def initialize(self) -> None:
        super().initialize()
        self._generator: Generator = self.application.generator
        self._bridge: Bridge | None = None
        self._answer: Answer | None = None
        self._outcome: str | None = None
        self._timer: asyncio.TimerHandle | None = None

    async def answer(self, body: bytes) -> None:
        application = self.application
        self._arrived = time.monotonic()
        application.active.add(self)
        try:
            application.hangups.watch(self.stream)
            if self.stream.closed():  # before Tornado could call on_connection_close
                raise ClientLeft
            await self._generate(body)
        except RequestError as refusal:
            self.refuse(refusal)
            await self._finish_refusal(refusal)
        except (ClientLeft, StreamClosedError):
            self._count("cancelled")
            self.set_status(CLIENT_CLOSED_REQUEST, "Client Closed Request")
        except Exception as failure:
            log.error(
                "request %s: generation failed",
                self.request_id,
                exc_info=failure,
                extra=fields(request_id=self.request_id),
            )
            await self._fail()
        except BaseException:  # the handler's own task was cancelled
            self._count("cancelled")
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._bridge is not None:
                self._bridge.close()
            application.active.discard(self)
            application.unwatch(self.stream)

    async def _generate(self, body: bytes) -> None:
        request = await self._parse(body)
        generator = self._generator
        await self.application.waiting_room.reserve(request.max_tokens, self._left)
        try:
            started = time.monotonic()
            prompt = await self._encode(request)
            answer = Answer(generator, request, prompt, time.monotonic() - started)
            bridge = generator.start(prompt, request, answer.logprobs)
        except BaseException:
            if self._left.done():
                generator.metrics.observe_cancellation(self._left.result())
            generator.release()
            raise
        self._bridge, self._answer = bridge, answer
        if request.timeout_s is not None:
            remaining = max(started + request.timeout_s - time.monotonic(), 0.0)
            self._timer = asyncio.get_running_loop().call_later(remaining, self._time_out, bridge, answer)
        if request.stream:
            await self._stream(bridge, answer)
        else:
            await self._plain(bridge, answer)

    async def _parse(self, body: bytes) -> GenerateRequest:
        if len(body) <= SMALL_BODY_BYTES:
            return self.parse(body)
        thread = self.application.slotless_thread
        return await asyncio.get_running_loop().run_in_executor(thread, self.parse, body)

    def _time_out(self, bridge: Bridge, answer: Answer) -> None:
        answer.time_out()
        bridge.stop()

    async def _encode(self, request: GenerateRequest) -> list[int]:
        """The prompt's ids, from a thread. They are dropped when the client leaves before they are there."""
        encoding = asyncio.get_running_loop().run_in_executor(None, self._generator.prompt_ids, request)
        try:
            await first_of(encoding, self._left)
            if self._left.done():
                raise ClientLeft
            return encoding.result()
        finally:
            if not encoding.cancel():
                encoding.exception()  # taken notice of, even where nobody waits for it

    async def _plain(self, bridge: Bridge, answer: Answer) -> None:
        parts: list[Part] = []
        while batch := await bridge.take():
            parts += await _made(answer, partial(answer.feed, batch))
            if answer.stopped:
                bridge.stop()
        parts += await _made(answer, answer.end)
        body = await _made(answer, lambda: to_json(self.whole(parts, answer, bridge)).encode())
        # Before the answer: a scrape that follows it must see it counted.
        self._count(answer.outcome)
        self.set_header("Content-Length", len(body))
        await self._send(body, bridge)
        self.finish()

    async def _stream(self, bridge: Bridge, answer: Answer) -> None:
        self.set_header("Content-Type", "text/event-stream; charset=utf-8")
        self.set_header("Cache-Control", "no-cache")
        self.set_header("X-Accel-Buffering", "no")  # nginx would keep the events until the end
        await self._send(b"", bridge)
        while batch := await self._take_or_ping(bridge, answer.request.ping_s):
            events = await _made(answer, partial(self._fed_events, batch, answer))
            if answer.stopped:
                bridge.stop()
            if events:
                await self._send(events, bridge)
        last = await _made(answer, lambda: self._events(answer.end(), answer))
        last += "".join(map(_event, self.last_events(answer, bridge)))
        self._count(answer.outcome)
        await self._send(last + "data: [DONE]\n\n", bridge)
        self._end_stream()

    def _end_stream(self) -> None:
        self.finish()
        if self.request.version == "HTTP/1.0":  # which has no other end of a body of unknown length
            self.stream.close()

    def _fed_events(self, batch: list[int], answer: Answer) -> str:
        return self._events(answer.feed(batch), answer)

    def _events(self, parts: list[Part], answer: Answer) -> str:
        return "".join(_event(self.event(part, answer)) for part in parts)

    async def _take_or_ping(self, bridge: Bridge, asked: int | None) -> list[int]:
        """What the bridge has next. Meanwhile comments show proxies and clients that the stream is alive."""
        seconds = self.application.server_settings.ping_seconds if asked is None else asked
        while seconds > 0 and not await bridge.has_more(seconds):
            await self._send(PING, bridge)
        return await bridge.take()

    async def _send(self, data: str | bytes, bridge: Bridge) -> None:
        """A client that does not read is waited for as long as its generation runs, since it costs nothing
        but a list of tokens, and then a little longer."""
        await self.send(data, may_stall=lambda: not bridge.ended)

    def refuse(self, error: RequestError) -> None:
        self._count(error.outcome, error.reason)
        self.write_refusal(error)

    async def _finish_refusal(self, error: RequestError) -> None:
        if error.closes:  # Tornado does not look at the header
            await first_of(self.flush(), self._left)
            self.finish()
            self.stream.close()
        else:
            self.finish()

    async def _fail(self) -> None:
        """The answer to a failure, or the event when the answer has begun."""
        if self._headers_written:
            self._count("error")
            with contextlib.suppress(ClientLeft, StreamClosedError):
                await self.send(_event(self.error_body(errors.failed())))
                self._end_stream()
        else:
            self.clear()
            self.refuse(errors.failed())
            self.finish()

    def _count(self, outcome: str, reason: str | None = None) -> None:
        """Counts the request, once."""
        if self._outcome is None:
            self._outcome = outcome
            metrics, bridge = self._generator.metrics, self._bridge
            metrics.count_request(outcome, reason)
            if bridge is not None:
                first = bridge.first_token_seconds(self._arrived)
                metrics.observe_tokens(first, bridge.seconds_between_tokens())

    def log_fields(self) -> dict[str, Any]:
        counts = self._answer.usage if self._answer is not None else {}
        return {"outcome": self._outcome, **counts}

    def stop_waiting(self) -> None:
        """The server shuts down and cannot wait any longer: for the worker, of which the client is told,
        or for a client that does not read."""
        if self._bridge is not None and not self._bridge.ended:
            self._bridge.abandon(errors.WorkerStuck("the worker thread did not end in time"))
        else:
            super().stop_waiting()

    def on_connection_close(self) -> None:
        super().on_connection_close()
        if self._bridge is not None:
            self._bridge.abandon(ClientLeft())

    def break_off(self) -> None:
        self._count("cancelled")
        super().break_off()


async def _made(answer: Answer, make: Callable[[], _Made]) -> _Made:
    """What ``make`` gives. Log probabilities are thousands of tokens to write out, which a thread does, lest
    they hold up the loop."""
    if answer.logprobs is None:
        return make()
    return await asyncio.get_running_loop().run_in_executor(None, make)


def _event(value: dict[str, Any]) -> str:
    return f"data: {to_json(value)}\n\n"
