"""POST /v1/completions: OpenAI's form of requests and answers."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import kael

from .. import generation_fields
from ..answer import USAGE, Answer, Part, TextToken
from ..bridge import Bridge
from ..generate import GenerationHandler
from ..generation_fields import ALLOW_SPECIAL, ECHO, LOGPROBS, MAX_NEW_TOKENS, STREAMING, TOKEN_ID
from ..handlers import json_number
from ..limits import MAX_PROMPT_CHARACTERS
from ..openai_errors import OpenAIErrors
from ..request import GenerateRequest, request_of
from ..schema import Schema

_TEXT = {"minLength": 1, "maxLength": MAX_PROMPT_CHARACTERS}
_IDS = {"minItems": 1, "maxItems": MAX_PROMPT_CHARACTERS}
_ONE = {"type": "integer", "minimum": 1, "maximum": 1, "default": 1}

SCHEMA = Schema(
    {
        "model": {"type": "string", "description": "any: there is one model"},
        "prompt": {
            "type": ["string", "array"],
            **_TEXT,
            **_IDS,
            "items": {
                **TOKEN_ID,
                **_TEXT,
                **_IDS,
                "type": ["integer", "string", "array"],
                "items": TOKEN_ID,
            },
            "anyOf": [{"items": {"not": {"type": ["string", "array"]}}}, {"maxItems": 1}],
            "x-messages": {"anyOf": "must be one prompt: a text or an array of token ids"},
            "description": "the text to continue, or its token ids; either may stand alone in an array",
        },
        "allow_special": ALLOW_SPECIAL,
        "max_tokens": {
            "type": "integer",
            "minimum": 0,
            "maximum": MAX_NEW_TOKENS,
            "default": 16,
            "description": "tokens to generate",
        },
        **generation_fields.sampling(temperature=1.0, top_k=0),
        **generation_fields.ending(stop_at_eos=True),
        "echo": ECHO,
        "logprobs": LOGPROBS,
        "n": {**_ONE, "description": "how many texts"},
        "best_of": {**_ONE, "description": "of how many texts"},
        "suffix": {
            "type": "string",
            "maxLength": 0,
            "x-messages": {"maxLength": "is not supported"},
            "description": "not supported",
        },
        **STREAMING,
        "stream_options": {
            "type": "object",
            "properties": {"include_usage": {"type": "boolean", "default": False}},
            "default": {},
            "description": "include_usage: a stream ends with an event that counts its tokens",
        },
    },
    required=("prompt",),
)

_NUMBERS = {"type": "array", "items": {"type": ["number", "null"]}}

ANSWER = {
    "type": "object",
    "required": ["id", "object", "created", "model", "choices", "usage"],
    "properties": {
        "id": {"type": "string"},
        "object": {"const": "text_completion"},
        "created": {"type": "integer"},
        "model": {"type": "string"},
        "system_fingerprint": {"type": "string"},
        "choices": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["text", "index", "logprobs", "finish_reason"],
                "properties": {
                    "text": {"type": "string"},
                    "index": {"const": 0},
                    "logprobs": {
                        "type": ["object", "null"],
                        "required": ["tokens", "token_logprobs", "top_logprobs", "text_offset"],
                        "properties": {
                            "tokens": {"type": "array", "items": {"type": "string"}},
                            "token_logprobs": _NUMBERS,
                            "top_logprobs": {"type": "array", "items": {"type": ["object", "null"]}},
                            "text_offset": {"type": "array", "items": {"type": "integer"}},
                        },
                    },
                    "finish_reason": {"enum": ["stop", "length"]},
                },
            },
        },
        "usage": {
            **USAGE,
            "properties": {
                **USAGE["properties"],
                "prompt_tokens_details": {
                    "type": "object",
                    "properties": {"cached_tokens": {"type": "integer"}},
                },
            },
        },
    },
}

# Fields that are read here, and say nothing of the generation.
_READ_HERE = ("model", "n", "best_of", "suffix", "stream_options")


class CompletionsHandler(OpenAIErrors, GenerationHandler):
    """The one choice has the index 0; a text that was cut short, by whatever, ends with ``length``."""

    def parse(self, body: bytes) -> GenerateRequest:
        fields = SCHEMA.read(body)
        self._includes_usage = fields["stream_options"].get("include_usage") is True
        self._created = int(time.time())
        generation = {name: value for name, value in fields.items() if name not in _READ_HERE}
        return request_of({**generation, "prompt": _one_prompt(fields["prompt"]), "details": False})

    def whole(self, parts: list[Part], answer: Answer, bridge: Bridge) -> dict[str, Any]:
        text = "".join(part.text for part in parts)
        tokens = [token for part in parts for token in part.tokens]
        choice = _choice(text, _logprobs(tokens, answer), _finish_reason(answer))
        return {**self._completion([choice]), "usage": _usage(answer, bridge)}

    def event(self, part: Part, answer: Answer) -> dict[str, Any]:
        return self._chunk([_choice(part.text, _logprobs(part.tokens, answer), None)])

    def last_events(self, answer: Answer, bridge: Bridge) -> Iterable[dict[str, Any]]:
        yield self._chunk([_choice("", None, _finish_reason(answer))])
        if self._includes_usage:
            yield {**self._completion([]), "usage": _usage(answer, bridge)}

    def _chunk(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        chunk = self._completion(choices)
        return {**chunk, "usage": None} if self._includes_usage else chunk

    def _completion(self, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": f"cmpl-{self.request_id}",
            "object": "text_completion",
            "created": self._created,
            "model": self.application.generator.name,
            "system_fingerprint": f"kael-{kael.__version__}",
            "choices": choices,
        }


def _one_prompt(prompt: str | list[Any]) -> str | list[int]:
    """A text, or ids, out of the four forms in which OpenAI's API takes them."""
    if isinstance(prompt, list) and isinstance(prompt[0], (str, list)):
        prompt = prompt[0]
    return prompt if isinstance(prompt, str) else [int(token) for token in prompt]


def _usage(answer: Answer, bridge: Bridge) -> dict[str, Any]:
    cached_tokens = bridge.cached_tokens
    known = {} if cached_tokens is None else {"prompt_tokens_details": {"cached_tokens": cached_tokens}}
    return {**answer.usage, **known}


def _finish_reason(answer: Answer) -> str:
    return "stop" if answer.finish_reason == "stop" else "length"


def _choice(text: str, logprobs: dict[str, Any] | None, finish_reason: str | None) -> dict[str, Any]:
    return {"text": text, "index": 0, "logprobs": logprobs, "finish_reason": finish_reason}


def _logprobs(tokens: list[TextToken], answer: Answer) -> dict[str, Any] | None:
    if answer.logprobs is None:
        return None
    return {
        "tokens": [_name(token.token, answer) for token in tokens],
        "token_logprobs": [
            None if token.said is None else json_number(token.said.logprob) for token in tokens
        ],
        "top_logprobs": [_top(token.said, answer) for token in tokens],
        "text_offset": [token.offset for token in tokens],
    }


def _top(said: kael.TokenLogprob | None, answer: Answer) -> dict[str, float | None] | None:
    """The most likely tokens by name, and the one that was picked where it is not among them."""
    if said is None:
        return None
    likeliest = [*said.top, (said.token, said.logprob)]
    return {_name(token, answer): json_number(logprob) for token, logprob in likeliest}


def _name(token: int, answer: Answer) -> str:
    """A token's text; its bytes, in words, where they are part of a character."""
    data = answer.bytes_of(token)
    try:
        return data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in data)
