"""GET /health, GET /ready, GET /metrics: for balancers and monitoring."""

from __future__ import annotations

import time
from typing import Any

from tornado import httputil
from tornado.http1connection import HTTP1Connection

from ..handlers import SERVER_NAME, BaseHandler, OnlyOtherMethods, to_json
from ..stalls import let_go_of_stalled


def status(word: str) -> dict[str, Any]:
    """The schema of an answer that is one word."""
    return {"type": "object", "required": ["status"], "properties": {"status": {"const": word}}}


class HealthHandler(OnlyOtherMethods):
    """GET and HEAD are answered by :class:`HealthAnswer`."""


class HealthAnswer(httputil.HTTPMessageDelegate):
    """GET /health without a RequestHandler, at half its price: balancers ask often, and every answer takes
    time from the generation."""

    BODY = b'{"status": "ok"}'

    def __init__(
        self, request: httputil.HTTPServerRequest, headers: dict[str, str], stall_seconds: float
    ) -> None:
        self._request = request
        self._headers = headers
        self._stall_seconds = stall_seconds

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
        connection = self._request.connection
        assert isinstance(connection, HTTP1Connection)  # the one kind that Tornado's server makes
        stream = connection.stream
        sent = connection.write_headers(httputil.ResponseStartLine("", 200, "OK"), headers, body)
        connection.finish()
        let_go_of_stalled(stream, sent, self._stall_seconds)


class ReadyHandler(BaseHandler):
    """GET /ready: for balancers, which must not send requests to a server that ends. A busy one is ready."""

    OPEN = True

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
