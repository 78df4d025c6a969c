"""What every handler shares: errors in JSON, request ids, the log."""

from __future__ import annotations

import json
import logging
import secrets
from typing import Any

from tornado.web import HTTPError, RequestHandler

log = logging.getLogger(__name__)

JSON_TYPE = "application/json"
SERVER_NAME = "kael"

_REASONS = {404: "not found", 405: "method not allowed"}
# Of what the client sent, this much of the path is logged: never a query, a header or a body.
_LOGGED_PATH_CHARACTERS = 100


def to_json(value: dict[str, Any]) -> str:
    """JSON in ASCII: some clients split an event stream at U+2028 and its like, which thus stay escaped."""
    return json.dumps(value, allow_nan=False)


class BaseHandler(RequestHandler):
    """Answers in JSON, whatever goes wrong."""

    ALLOW = "GET, HEAD"

    def set_default_headers(self) -> None:
        if not hasattr(self, "request_id"):
            self.request_id = secrets.token_hex(8)
        self.set_header("Server", SERVER_NAME)
        self.set_header("Content-Type", JSON_TYPE)
        self.set_header("X-Request-Id", self.request_id)

    def compute_etag(self) -> None:
        """No answer here is worth a 304."""

    def write_error(self, status_code: int, **_: Any) -> None:
        if status_code == 405:
            self.set_header("Allow", self.ALLOW)
        self.finish(to_json({"error": _REASONS.get(status_code, "generation failed")}))

    def log_exception(self, typ: Any, value: Any, traceback: Any) -> None:
        if not isinstance(value, HTTPError):
            log.error("request %s failed", self.request_id, exc_info=(typ, value, traceback))


class NotFound(BaseHandler):
    def prepare(self) -> None:
        raise HTTPError(404)

    def write_error(self, status_code: int, **options: Any) -> None:
        # Tornado refuses a method that it does not know before it looks at the path.
        self.set_status(404)
        super().write_error(404, **options)


class OnlyOtherMethods(BaseHandler):
    """For a path whose own methods are answered before they come here."""

    def prepare(self) -> None:
        raise HTTPError(405)


def log_request(handler: RequestHandler) -> None:
    """The line that ends each request in the log."""
    request = handler.request
    log.info(
        "%s %s %s %d %.1f ms",
        getattr(handler, "request_id", "-"),
        request.method,
        ascii(request.path[:_LOGGED_PATH_CHARACTERS])[1:-1],
        handler.get_status(),
        1000.0 * request.request_time(),
    )
