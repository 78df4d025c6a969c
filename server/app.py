"""The Tornado application around a Generator."""

from __future__ import annotations

import asyncio
import os
import time
from functools import cached_property
from typing import Any, ClassVar

from tornado import httputil
from tornado.iostream import IOStream
from tornado.web import Application

import kael

from .access import Access
from .endpoints.completions import CompletionsHandler
from .endpoints.generate import GenerateHandler
from .endpoints.models import ModelHandler, ModelsHandler
from .generate import GenerationHandler
from .generator import Generator
from .handlers import SERVER_NAME, BaseHandler, NotFound, OnlyOtherMethods, log_request, to_json
from .hangup import HangupWatch
from .openai_errors import OpenAINotFound
from .settings import Settings
from .waiting import WaitingRoom

# While the server shuts down, how often it looks whether everything has ended.
_DRAIN_POLL_SECONDS = 0.01
# Before the time is up, for telling the clients of a worker that does not come back.
_LAST_WORDS_SECONDS = 1.0


class RoutesHandler(BaseHandler):
    """GET /: what else there is."""

    ROUTES: ClassVar[dict[str, str]] = {
        "POST /generate": "continues the prompt in its JSON body",
        "POST /v1/completions": "the same, for clients of OpenAI's API",
        "GET /v1/models": "the one model, for them",
        "GET /health": "whether the server is up",
        "GET /ready": "whether it takes requests",
        "GET /metrics": "counters, for Prometheus",
    }

    def get(self) -> None:
        self.finish(to_json({"routes": self.ROUTES}))

    head = get


class ReadyHandler(BaseHandler):
    """GET /ready: for balancers, which must not send requests to a server that ends. A busy one is ready."""

    NEEDS_KEY = False

    def get(self) -> None:
        draining = self.application.generator.shutting_down.is_set()
        self.set_status(503 if draining else 200)
        self.finish(to_json({"status": "draining" if draining else "ready"}))

    head = get


class MetricsHandler(BaseHandler):
    """GET /metrics."""

    def get(self) -> None:
        page, content_type = self.application.generator.metrics.render(self.request.headers.get("Accept", ""))
        self.set_header("Content-Type", content_type)
        self.finish(page)

    head = get


class HealthAnswer(httputil.HTTPMessageDelegate):
    """GET /health without a RequestHandler, at half its price: balancers ask often, and every answer takes
    time from the generation."""

    BODY = b'{"status": "ok"}'

    def __init__(self, request: httputil.HTTPServerRequest, headers: dict[str, str]) -> None:
        self._request = request
        self._headers = headers

    def finish(self) -> None:
        headers = httputil.HTTPHeaders(
            {
                "Content-Type": "application/json",
                "Content-Length": str(len(self.BODY)),
                "Date": httputil.format_timestamp(time.time()),
                "Server": SERVER_NAME,
                **self._headers,
            }
        )
        body = b"" if self._request.method == "HEAD" else self.BODY
        self._request.connection.write_headers(httputil.ResponseStartLine("", 200, "OK"), headers, body)
        self._request.connection.finish()


class KaelApplication(Application):
    """Routes, and the requests for a text that are being answered."""

    def __init__(self, generator: Generator, settings: Settings) -> None:
        super().__init__(
            [
                ("/", RoutesHandler),
                ("/generate", GenerateHandler),
                ("/v1/completions", CompletionsHandler),
                ("/v1/models", ModelsHandler),
                ("/v1/models/(.+)", ModelHandler),
                ("/v1/.*", OpenAINotFound),
                ("/metrics", MetricsHandler),
                ("/ready", ReadyHandler),
                ("/health", OnlyOtherMethods),
            ],
            default_handler_class=NotFound,
            log_function=log_request,
        )
        self.generator = generator
        self.server_settings = settings
        self.access = Access(settings)
        self.waiting_room = WaitingRoom(generator, settings.queue)
        self.active: set[GenerationHandler] = set()
        self.draining_bodies = 0

    @cached_property
    def hangups(self) -> HangupWatch:
        """Made by the first request, on the loop that serves it."""
        return HangupWatch()

    def unwatch(self, stream: IOStream) -> None:
        """Does nothing for a stream that is not watched, or where watching failed."""
        if "hangups" in self.__dict__:
            self.hangups.forget(stream)

    def find_handler(self, request: httputil.HTTPServerRequest, **options: Any) -> Any:
        if request.path == "/health" and request.method in ("GET", "HEAD"):
            return HealthAnswer(request, self.access.headers(request))
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
        """Gives up what watches the connections. Loop."""
        if "hangups" in self.__dict__:
            self.hangups.close()


def create_app(generator: Generator, settings: Settings | None = None) -> KaelApplication:
    """The application that serves ``generator``."""
    return KaelApplication(generator, settings or Settings())


def load_app(
    data: str | os.PathLike[str], device: str = "cpu", settings: Settings | None = None
) -> KaelApplication:
    """The application that serves the checkpoint in the folder ``data``. Raises :class:`kael.Error`."""
    model = kael.GPT.from_pretrained(data, device=device)
    tokenizer = kael.BpeTokenizer.from_pretrained(data)
    if tokenizer.vocabulary_size > model.config.vocab_size:
        raise kael.Error(
            f"{os.fspath(data)}: vocab.json has ids up to {tokenizer.vocabulary_size - 1}, expected at most "
            f"{model.config.vocab_size - 1}, the model's last",
            kael.ErrorCode.INVALID_FILE,
        )
    generator = Generator(
        model, tokenizer, device=device, context=model.config.max_positions, name=_name_of(data)
    )
    return create_app(generator, settings)


def _name_of(folder: str | os.PathLike[str]) -> str:
    """A model is called as its folder is, of whose place nobody needs to know."""
    return os.path.basename(os.path.abspath(folder)).encode(errors="surrogateescape").decode(errors="replace")
