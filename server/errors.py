"""What a request can be answered with instead of a text."""

from __future__ import annotations

from typing import Any

# Why a request gets no generation: those of the outcome busy, and those of the outcome rejected.
BUSY_REASONS = ("busy", "draining")
REJECTED_REASONS = ("body", "invalid", "context", "key", "host", "origin")

# Where the operator sets no other.
BUSY_STATUS = 429


class RequestError(Exception):
    """Ends a request with a status, a JSON body, and the outcome and the reason that the metrics count."""

    def __init__(
        self,
        status: int,
        body: dict[str, Any],
        outcome: str,
        reason: str | None = None,
        *,
        headers: dict[str, str] | None = None,
        closes: bool = False,
    ) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
        self.outcome = outcome
        self.reason = reason
        self.headers = headers or {}
        self.closes = closes  # the connection, after the answer


class ClientLeft(Exception):
    """The client closed its side of the connection: nobody waits for an answer."""


class WorkerStuck(Exception):
    """The worker thread did not come back while the server shuts down."""


def invalid(details: list[dict[str, Any]]) -> RequestError:
    """Something in the body is not as it must be. The details never hold a value from the request."""
    return RequestError(422, {"error": "invalid request", "details": details}, "rejected", "invalid")


def body_too_large(limit: int) -> RequestError:
    text = f"the body is larger than {limit} bytes (the server's --max-body-bytes)"
    return RequestError(413, {"error": text}, "rejected", "body")


def outgrows_context(prompt_tokens: int, max_tokens: int, context: int) -> RequestError:
    text = (
        f"the prompt has {prompt_tokens} tokens, which with max_tokens {max_tokens} makes "
        f"{prompt_tokens + max_tokens}; the context holds {context}"
    )
    return RequestError(413, {"error": text}, "rejected", "context")


def no_key() -> RequestError:
    text = "a key is needed: Authorization: Bearer KEY"
    headers = {"WWW-Authenticate": "Bearer"}
    return RequestError(401, {"error": text}, "rejected", "key", headers=headers)


def wrong_host() -> RequestError:
    text = "the Host of the request is not a name of this server (its --allowed-host)"
    return RequestError(403, {"error": text}, "rejected", "host")


def wrong_origin() -> RequestError:
    text = "the Origin of the request is not one whose pages may ask (the server's --cors-origin)"
    return RequestError(403, {"error": text}, "rejected", "origin")


def busy(seconds: int) -> RequestError:
    headers = {"Retry-After": str(seconds)}
    body = {"error": "the model is busy"}
    return RequestError(BUSY_STATUS, body, "busy", "busy", headers=headers)


def shutting_down() -> RequestError:
    # The outcome is busy: no slot is given, not by the client's fault, and another replica may have one.
    text = "the server is shutting down"
    headers = {"Retry-After": "1"}
    return RequestError(503, {"error": text}, "busy", "draining", headers=headers, closes=True)


def failed() -> RequestError:
    """A failure inside: the details go to the log alone."""
    return RequestError(500, {"error": "generation failed"}, "error")
