"""POST /generate."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..answer import Answer, Piece, TextToken
from ..bridge import Bridge
from ..generate import GenerationHandler
from ..handlers import json_number
from ..request import GenerateRequest, parse


class GenerateHandler(GenerationHandler):
    """The server's own form of requests and answers."""

    def parse(self, body: bytes) -> GenerateRequest:
        return parse(body)

    def whole(self, pieces: list[Piece], answer: Answer, bridge: Bridge) -> dict[str, Any]:
        whole = {
            "text": "".join(piece.text for piece in pieces),
            "tokens": answer.tokens,
            "seconds": answer.seconds,
            **answer.details(bridge),
        }
        if answer.logprobs is not None:
            whole["logprobs"] = [_entry(token, answer) for piece in pieces for token in piece.tokens]
        return whole

    def event(self, piece: Piece, answer: Answer) -> dict[str, Any]:
        event: dict[str, Any] = {"text": piece.text}
        if answer.logprobs is not None:
            event["logprobs"] = [_entry(token, answer) for token in piece.tokens]
        return event

    def last_events(self, answer: Answer, bridge: Bridge) -> Iterable[dict[str, Any]]:
        return [answer.details(bridge)] if answer.request.details else []


def _entry(token: TextToken, answer: Answer) -> dict[str, Any]:
    said = token.said
    return {
        **_named(token.token, answer),
        "logprob": None if said is None else json_number(said.logprob),
        "top": [
            {**_named(other, answer), "logprob": json_number(logprob)}
            for other, logprob in (said.top if said is not None else [])
        ],
    }


def _named(token: int, answer: Answer) -> dict[str, Any]:
    """A token by its id, and by the bytes that it stands for: some are parts of characters."""
    data = answer.bytes_of(token)
    return {"token": token, "text": data.decode("utf-8", "replace"), "bytes": list(data)}
