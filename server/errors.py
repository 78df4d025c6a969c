"""What a request can be answered with instead of a text."""

from __future__ import annotations

from typing import Any


class RequestError(Exception):
    """Ends a request with a status, a JSON body and the outcome that the metrics count."""

    def __init__(
        self,
        status: int,
        body: dict[str, Any],
        outcome: str,
        *,
        retry_after: int | None = None,
        closes: bool = False,
    ) -> None:
        super().__init__(status)
        self.status = status
        self.body = body
        self.outcome = outcome
        self.retry_after = retry_after
        self.closes = closes  # the connection, after the answer


class ClientLeft(Exception):
    """The client closed its side of the connection: nobody waits for an answer."""


class WorkerStuck(Exception):
    """The worker thread did not come back while the server shuts down."""


def invalid(details: list[dict[str, Any]]) -> RequestError:
    """Something in the body is not as it must be. The details never hold a value from the request."""
    return RequestError(422, {"error": "invalid request", "details": details}, "rejected")


def body_too_large(limit: int) -> RequestError:
    text = f"the body is larger than {limit} bytes (the server's --max-body-bytes)"
    return RequestError(413, {"error": text}, "rejected", closes=True)


def outgrows_context(prompt_tokens: int, max_tokens: int, context: int) -> RequestError:
    text = (
        f"the prompt has {prompt_tokens} tokens, which with max_tokens {max_tokens} makes "
        f"{prompt_tokens + max_tokens}; the context holds {context}"
    )
    return RequestError(413, {"error": text}, "rejected")


def busy(seconds: int) -> RequestError:
    return RequestError(429, {"error": "the model is busy"}, "busy", retry_after=seconds)


def shutting_down() -> RequestError:
    # The outcome is busy: no slot is given, not by the client's fault, and another replica may have one.
    return RequestError(503, {"error": "the server is shutting down"}, "busy", retry_after=1, closes=True)


def failed() -> RequestError:
    """A failure inside: the details go to the log alone."""
    return RequestError(500, {"error": "generation failed"}, "error")
