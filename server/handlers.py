"""What every handler shares: errors in JSON, request ids, the log."""

from __future__ import annotations

import json
import logging
import math
import re
import secrets
from asyncio import Future
from typing import TYPE_CHECKING, Any

from tornado.http1connection import HTTP1Connection
from tornado.iostream import IOStream
from tornado.web import HTTPError, RequestHandler

from .errors import BUSY_STATUS, RequestError
from .logs import fields
from .stalls import let_go_of_stalled

if TYPE_CHECKING:
    from .app import KaelApplication

log = logging.getLogger(__name__)

JSON_TYPE = "application/json"
SERVER_NAME = "kael"

_REASONS = {400: "bad request", 404: "not found", 405: "method not allowed"}
# An id that a client, or a proxy, may give its request: nothing that could break a line of the log.
_REQUEST_ID = re.compile(r"[A-Za-z0-9._:-]{1,64}")

# Of what the client sent, so much is logged.
_LOGGED_PATH_CHARACTERS = 100
_LOGGED_METHOD_CHARACTERS = 20
# A name and a password, in a target that was no path.
_USER_INFO = re.compile(r"//[^/]*@")


def to_json(value: dict[str, Any]) -> str:
    """JSON in ASCII: some clients split an event stream at U+2028 and its like, which thus stay escaped."""
    return json.dumps(value, allow_nan=False)


def json_number(figure: float) -> float | None:
    """A logarithm of 0, which JSON has no number for, is null."""
    return figure if math.isfinite(figure) else None


class BaseHandler(RequestHandler):
    """Answers in JSON, whatever goes wrong."""

    application: KaelApplication
    ALLOW = "GET, HEAD, OPTIONS"
    OPEN = False  # to everybody, without key, by any name and for any page

    def set_default_headers(self) -> None:
        if not hasattr(self, "request_id"):
            given = self.request.headers.get("X-Request-Id", "")
            self.request_id = given if _REQUEST_ID.fullmatch(given) else secrets.token_hex(8)
        self.set_header("Server", SERVER_NAME)
        self.set_header("Content-Type", JSON_TYPE)
        self.set_header("X-Request-Id", self.request_id)
        for name, value in self.application.access.headers(self.request).items():
            self.set_header(name, value)

    def access_refusal(self) -> RequestError | None:
        """Why this request is not answered, if so."""
        if self.OPEN:
            return None
        return self.application.access.refusal(self.request, self.needs_key())

    def needs_key(self) -> bool:
        """Whether this request must have one, where the server has keys."""
        return self.request.method != "OPTIONS"  # which a browser sends before the key

    def prepare(self) -> Any:
        refusal = self.access_refusal()
        if refusal is not None:
            self.write_refusal(refusal)
            self.finish()

    def options(self, *_: str) -> None:
        self.set_status(204)
        self.clear_header("Content-Type")
        self.set_header("Allow", self.ALLOW)
        for name, value in self.application.access.preflight_headers(self.request, self.ALLOW).items():
            self.set_header(name, value)
        self.finish()

    def finish(self, chunk: str | bytes | dict[str, Any] | None = None) -> Future[None]:
        """Ends the answer. A client that does not take it in time is let go."""
        stream = self.stream
        sent = super().finish(chunk)
        let_go_of_stalled(stream, sent, self.application.server_settings.stall_seconds)
        return sent

    @property
    def stream(self) -> IOStream:
        """The client's connection."""
        return self.http_connection.stream

    @property
    def http_connection(self) -> HTTP1Connection:
        assert isinstance(
            self.request.connection, HTTP1Connection
        )  # the one kind that Tornado's server makes
        return self.request.connection

    def write_refusal(self, error: RequestError) -> None:
        """Writes the answer of ``error`` without finishing it."""
        is_busy = error.status == BUSY_STATUS
        self.set_status(self.application.server_settings.busy_status if is_busy else error.status)
        for name, value in error.headers.items():
            self.set_header(name, value)
        if error.closes:
            self.set_header("Connection", "close")
        text = to_json(self.error_body(error)).encode()
        self.set_header("Content-Length", len(text))
        self.write(text)

    def error_body(self, error: RequestError) -> dict[str, Any]:
        """The JSON that tells a client of ``error``."""
        return {**error.body, "request_id": self.request_id} if error.status == 422 else error.body

    def compute_etag(self) -> str | None:
        """Most answers are not worth a 304."""
        return None

    def write_error(self, status_code: int, **_: Any) -> None:
        if status_code == 405:
            self.set_header("Allow", self.ALLOW)
        text = _REASONS.get(status_code, "generation failed")
        self.finish(to_json(self.error_body(RequestError(status_code, {"error": text}, "error"))))

    def log_exception(self, typ: Any, value: Any, traceback: Any) -> None:
        if not isinstance(value, HTTPError):
            log.error(
                "request %s failed",
                self.request_id,
                exc_info=(typ, value, traceback),
                extra=fields(request_id=self.request_id),
            )

    def log_fields(self) -> dict[str, Any]:
        """What a line of JSON says of this request beside the line of text."""
        return {}


class NotFound(BaseHandler):
    def prepare(self) -> None:
        super().prepare()
        if not self._finished:
            raise HTTPError(404)

    def write_error(self, status_code: int, **options: Any) -> None:
        # Tornado refuses a method that it does not know before it looks at the path.
        self.set_status(404)
        super().write_error(404, **options)


class OnlyOtherMethods(BaseHandler):
    """For a path whose own methods are answered before they come here."""

    OPEN = True

    def prepare(self) -> None:
        super().prepare()
        if not self._finished and self.request.method != "OPTIONS":
            raise HTTPError(405)


def log_request(handler: RequestHandler) -> None:
    """The line that ends each request in the log. Never a query, a header or a body."""
    request = handler.request
    request_id = getattr(handler, "request_id", "-")
    method = ascii(request.method[:_LOGGED_METHOD_CHARACTERS])[1:-1]
    path = ascii(_USER_INFO.sub("//", request.path)[:_LOGGED_PATH_CHARACTERS])[1:-1]
    status, milliseconds = handler.get_status(), 1000.0 * request.request_time()
    more = handler.log_fields() if isinstance(handler, BaseHandler) else {}
    log.info(
        "%s %s %s %d %.1f ms",
        request_id,
        method,
        path,
        status,
        milliseconds,
        extra=fields(
            request_id=request_id,
            method=method,
            path=path,
            status=status,
            milliseconds=round(milliseconds, 1),
            **more,
        ),
    )
