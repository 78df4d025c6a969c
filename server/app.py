"""The Tornado application around a Generator."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

from tornado import httputil
from tornado.iostream import IOStream
from tornado.web import Application

import kael

from . import target
from .access import Access
from .bodies import BodyHandler
from .endpoints.operation import HealthAnswer
from .generator import Generator
from .handlers import NotFound, log_request
from .hangup import HangupWatch
from .host_header import HostHeaderCheck
from .openai_errors import OpenAINotFound
from .routes import ROUTES
from .settings import Settings
from .waiting import WaitingRoom

# While the server shuts down, how often it looks whether everything has ended.
_DRAIN_POLL_SECONDS = 0.01
# Before the time is up, for telling the clients of a worker that does not come back.
_LAST_WORDS_SECONDS = 1.0


class KaelApplication(Application):
    """Routes, and the requests that are being answered."""

    def __init__(self, generator: Generator, settings: Settings) -> None:
        super().__init__(
            [*((route.pattern, route.handler) for route in ROUTES), ("/v1/.*", OpenAINotFound)],
            default_handler_class=NotFound,
            log_function=log_request,
        )
        self.routes = ROUTES
        self.generator = generator
        self.server_settings = settings
        self.access = Access(settings)
        self.waiting_room = WaitingRoom(generator, settings.queue)
        self.active: set[BodyHandler] = set()
        self.draining_bodies = 0
        # For what takes its time and needs no slot. One thread, of its own: a prompt whose request holds the
        # slot must not wait behind it.
        self.slotless_thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="kael-slotless")

    @cached_property
    def hangups(self) -> HangupWatch:
        """Made by the first request, on the loop that serves it."""
        return HangupWatch()

    def unwatch(self, stream: IOStream) -> None:
        """Does nothing for a stream that is not watched, or where watching failed."""
        if "hangups" in self.__dict__:
            self.hangups.forget(stream)

    def start_request(
        self, server_conn: object, request_conn: httputil.HTTPConnection
    ) -> httputil.HTTPMessageDelegate:
        return HostHeaderCheck(super().start_request(server_conn, request_conn))

    def find_handler(self, request: httputil.HTTPServerRequest, **options: Any) -> Any:
        target.normalize(request)
        if request.path == "/health" and request.method in ("GET", "HEAD"):
            return HealthAnswer(request, self.access.headers(request), self.server_settings.stall_seconds)
        # By this header Tornado parses a body as a form, before the handler is asked, and refuses a bad one.
        request.headers.pop("Content-Type", None)
        return super().find_handler(request, **options)

    async def drain(self, seconds: float) -> bool:
        """Stops the running generation and waits until every request is answered and the worker has returned.
        False when that takes longer than ``seconds``; the clients are told by then."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + seconds
        last_words = deadline - _LAST_WORDS_SECONDS
        self.generator.shut_down()
        self.waiting_room.dismiss()
        while self.active or self.generator.slot.locked():
            if loop.time() >= deadline:
                return False
            if loop.time() >= last_words:
                last_words = deadline
                for handler in list(self.active):
                    handler.stop_waiting()
            await asyncio.sleep(_DRAIN_POLL_SECONDS)
        return self.generator.join(_LAST_WORDS_SECONDS)

    def close(self) -> None:
        """Gives up what watches the connections, and the thread for those without the slot. Loop."""
        self.slotless_thread.shutdown(wait=False, cancel_futures=True)
        if "hangups" in self.__dict__:
            self.hangups.close()


def create_app(generator: Generator, settings: Settings | None = None) -> KaelApplication:
    """The application that serves ``generator``."""
    return KaelApplication(generator, settings or Settings())


def load_app(
    data: str | os.PathLike[str],
    device: str = "cpu",
    settings: Settings | None = None,
    dtype: str = "float32",
) -> KaelApplication:
    """The application that serves the checkpoint in the folder ``data``. Raises :class:`kael.Error`."""
    model = kael.GPT.from_pretrained(data, device=device, dtype=dtype)
    tokenizer = kael.BpeTokenizer.from_pretrained(data)
    if tokenizer.vocabulary_size > model.config.vocab_size:
        raise kael.Error(
            f"{os.fspath(data)}: vocab.json has ids up to {tokenizer.vocabulary_size - 1}, expected at most "
            f"{model.config.vocab_size - 1}, the model's last",
            kael.ErrorCode.INVALID_FILE,
        )
    settings = settings or Settings()
    generator = Generator(
        model,
        tokenizer,
        device=device,
        context=model.config.max_positions,
        name=_name_of(data),
        reuse_prefix=not settings.no_prefix_cache,
        speculate=settings.speculate,
    )
    return create_app(generator, settings)


def _name_of(folder: str | os.PathLike[str]) -> str:
    """A model is called as its folder is, of whose place nobody needs to know."""
    return os.path.basename(os.path.abspath(folder)).encode(errors="surrogateescape").decode(errors="replace")
