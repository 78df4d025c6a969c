"""OpenAI's form of errors, for the paths under /v1."""

from __future__ import annotations

from typing import Any

from .errors import BUSY_STATUS, RequestError
from .handlers import BaseHandler, NotFound

# Words that clients of OpenAI's API look at.
_CODES = {"context": "context_length_exceeded", "key": "invalid_api_key", "model": "model_not_found"}


class OpenAIErrors(BaseHandler):
    """Says what is wrong as the clients of OpenAI's API expect to be told."""

    def error_body(self, error: RequestError) -> dict[str, Any]:
        details = error.body.get("details", [])
        texts = [f"{detail['field'] or 'the body'} {detail['message']}" for detail in details]
        field = details[0]["field"] if details else ""
        return {
            "error": {
                "message": "; ".join(texts) or error.body["error"],
                "type": _type_of(error.status),
                "param": field.split("/")[1] if field else None,
                "code": _CODES.get(error.reason or ""),
            }
        }


def _type_of(status: int) -> str:
    if status == BUSY_STATUS:
        return "rate_limit_error"
    return "server_error" if status >= 500 else "invalid_request_error"


class OpenAINotFound(OpenAIErrors, NotFound):
    """Any other path under /v1."""
