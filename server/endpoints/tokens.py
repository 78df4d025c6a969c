"""POST /tokenize and POST /detokenize: what a prompt is to the model, and back. Neither needs the slot."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Iterable
from typing import Any

from tornado.iostream import StreamClosedError

import kael

from .. import errors
from ..bodies import CLIENT_CLOSED_REQUEST, BodyHandler
from ..errors import ClientLeft, RequestError
from ..generation_fields import ALLOW_SPECIAL, TOKEN_ID
from ..generator import Generator
from ..handlers import to_json
from ..limits import MAX_PROMPT_CHARACTERS
from ..pieces import PIECE, describe
from ..schema import Schema

_PIECES = {
    "type": "boolean",
    "default": False,
    "description": "say of each token what it stands for, as text and as bytes",
}

TOKENIZE_SCHEMA = Schema(
    {
        "text": {"type": "string", "maxLength": MAX_PROMPT_CHARACTERS, "description": "what to encode"},
        "allow_special": ALLOW_SPECIAL,
        "pieces": _PIECES,
    },
    required=("text",),
)

DETOKENIZE_SCHEMA = Schema(
    {
        "tokens": {
            "type": "array",
            "items": TOKEN_ID,
            "maxItems": MAX_PROMPT_CHARACTERS,
            "description": "token ids",
        },
        "pieces": _PIECES,
    },
    required=("tokens",),
)


TOKENIZE_ANSWER = {
    "type": "object",
    "required": ["tokens", "count"],
    "properties": {
        "tokens": {"type": "array", "items": {"type": "integer"}},
        "count": {"type": "integer"},
        "pieces": {"type": "array", "items": PIECE},
    },
}
DETOKENIZE_ANSWER = {
    "type": "object",
    "required": ["text"],
    "properties": {"text": {"type": "string"}, "pieces": {"type": "array", "items": PIECE}},
}


class TokensHandler(BodyHandler):
    """Reads a body, and answers from a thread: thousands of tokens would hold up the loop."""

    @abstractmethod
    def convert(self, body: bytes) -> dict[str, Any]:
        """The answer to a body, on a thread. Raises :class:`RequestError`."""

    @property
    def generator(self) -> Generator:
        return self.application.generator

    async def answer(self, body: bytes) -> None:
        application = self.application
        application.active.add(self)
        try:
            if self.generator.shutting_down.is_set():
                raise errors.shutting_down()
            loop, thread = asyncio.get_running_loop(), application.slotless_thread
            text = await loop.run_in_executor(thread, self._answer_text, body)
            self.set_header("Content-Length", len(text))
            await self.send(text)
            self.finish()
        except RequestError as refusal:
            self.refuse(refusal)
            self.finish()
            if refusal.closes:
                self.stream.close()
        except (ClientLeft, StreamClosedError):
            self.set_status(CLIENT_CLOSED_REQUEST, "Client Closed Request")
        finally:
            application.active.discard(self)

    def _answer_text(self, body: bytes) -> str:
        """Nothing for a client that has left while others were answered."""
        return "" if self.stream.closed() else to_json(self.convert(body))

    def refuse(self, error: RequestError) -> None:
        self.write_refusal(error)

    def pieces(self, tokens: Iterable[int]) -> dict[str, Any]:
        stream = kael.TextStream(self.generator.tokenizer)
        return {"pieces": [describe(token, stream.bytes_of(token)) for token in tokens]}


class TokenizeHandler(TokensHandler):
    """The ids of a text, as a prompt of the same fields has them."""

    def convert(self, body: bytes) -> dict[str, Any]:
        fields = TOKENIZE_SCHEMA.read(body)
        tokens = self.generator.encode(fields["text"], "/text", fields["allow_special"])
        pieces = self.pieces(tokens) if fields["pieces"] else {}
        return {"tokens": tokens, "count": len(tokens), **pieces}


class DetokenizeHandler(TokensHandler):
    """The text of ids, as an answer of the same tokens has it."""

    def convert(self, body: bytes) -> dict[str, Any]:
        fields = DETOKENIZE_SCHEMA.read(body)
        tokens = [int(token) for token in fields["tokens"]]
        self.generator.check_ids(tokens, "/tokens")
        stream = kael.TextStream(self.generator.tokenizer)
        text = "".join(map(stream.feed, tokens)) + stream.end()
        return {"text": text, **(self.pieces(tokens) if fields["pieces"] else {})}
