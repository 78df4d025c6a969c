"""A Host header on which Tornado would fail."""

from __future__ import annotations

from collections.abc import Awaitable

from tornado.httputil import (
    HTTPHeaders,
    HTTPInputError,
    HTTPMessageDelegate,
    RequestStartLine,
    ResponseStartLine,
)

# Names have at most 253. Of a longer one Tornado would still read the port, with any number of digits.
_MAX_CHARACTERS = 300


class HostHeaderCheck(HTTPMessageDelegate):
    """Stands before another delegate: a Host header that is too long is answered with 400."""

    def __init__(self, delegate: HTTPMessageDelegate) -> None:
        self._delegate = delegate

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        if len(headers.get("Host", "")) > _MAX_CHARACTERS:
            raise HTTPInputError(f"a Host header of more than {_MAX_CHARACTERS} characters")
        return self._delegate.headers_received(start_line, headers)

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        return self._delegate.data_received(chunk)

    def finish(self) -> None:
        self._delegate.finish()

    def on_connection_close(self) -> None:
        self._delegate.on_connection_close()
