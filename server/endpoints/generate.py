"""POST /generate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..answer import USAGE, Answer, Part, TextToken
from ..bridge import Bridge
from ..generate import GenerationHandler
from ..handlers import json_number
from ..pieces import PIECE, describe
from ..request import GenerateRequest, parse

_SECONDS = {"type": ["number", "null"]}
_RATED = {**PIECE["properties"], "logprob": {"type": ["number", "null"]}}

ANSWER = {
    "type": "object",
    "required": ["text", "tokens", "seconds", "finish_reason", "seed", "usage", "timings"],
    "properties": {
        "text": {"type": "string"},
        "tokens": {"type": "integer"},
        "seconds": {"type": "number"},
        "finish_reason": {"enum": ["length", "stop", "timeout", "shutdown"]},
        "seed": {"type": ["integer", "null"]},
        "usage": USAGE,
        "timings": {
            "type": "object",
            "properties": {
                "cached_tokens": {"type": ["integer", "null"]},
                "guessed_tokens": {"type": ["integer", "null"]},
                "tokenize_seconds": _SECONDS,
                "prefill_seconds": _SECONDS,
                "first_token_seconds": _SECONDS,
                "seconds_per_token": _SECONDS,
                "tokens_per_second": _SECONDS,
            },
        },
        "logprobs": {
            "type": "array",
            "items": {
                "type": "object",
                "required": [*PIECE["required"], "logprob", "top"],
                "properties": {
                    **_RATED,
                    "top": {"type": "array", "items": {"type": "object", "properties": _RATED}},
                },
            },
        },
    },
}


class GenerateHandler(GenerationHandler):
    """The server's own form of requests and answers."""

    def parse(self, body: bytes) -> GenerateRequest:
        return parse(body)

    def whole(self, parts: list[Part], answer: Answer, bridge: Bridge) -> dict[str, Any]:
        whole = {
            "text": "".join(part.text for part in parts),
            "tokens": answer.tokens,
            "seconds": answer.seconds,
            **answer.details(bridge),
        }
        if answer.logprobs is not None:
            whole["logprobs"] = [_entry(token, answer) for part in parts for token in part.tokens]
        return whole

    def event(self, part: Part, answer: Answer) -> dict[str, Any]:
        event: dict[str, Any] = {"text": part.text}
        if answer.logprobs is not None:
            event["logprobs"] = [_entry(token, answer) for token in part.tokens]
        return event

    def last_events(self, answer: Answer, bridge: Bridge) -> Iterable[dict[str, Any]]:
        return [answer.details(bridge)] if answer.request.details else []


def _entry(token: TextToken, answer: Answer) -> dict[str, Any]:
    said = token.said
    return {
        **describe(token.token, answer.bytes_of(token.token)),
        "logprob": None if said is None else json_number(said.logprob),
        "top": [
            {**describe(other, answer.bytes_of(other)), "logprob": json_number(logprob)}
            for other, logprob in (said.top if said is not None else [])
        ],
    }
