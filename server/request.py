"""A request for a text, and the body of POST /generate that asks for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import generation_fields
from .generation_fields import ALLOW_SPECIAL, ECHO, LOGPROBS, MAX_NEW_TOKENS, STREAMING
from .limits import MAX_PROMPT_CHARACTERS
from .schema import Schema

SCHEMA = Schema(
    {
        "prompt": {
            "type": "string",
            "minLength": 1,
            "maxLength": MAX_PROMPT_CHARACTERS,
            "description": "the text to continue",
        },
        "allow_special": ALLOW_SPECIAL,
        "max_tokens": {
            "type": "integer",
            "minimum": 1,
            "maximum": MAX_NEW_TOKENS,
            "default": 64,
            "description": "tokens to generate",
        },
        **generation_fields.sampling(temperature=0.8, top_k=40),
        **generation_fields.ending(stop_at_eos=False),
        "echo": ECHO,
        "logprobs": LOGPROBS,
        **STREAMING,
        "details": {
            "type": "boolean",
            "default": False,
            "description": "a stream has the plain answer's further fields in one event before its end",
        },
    },
    required=("prompt",),
)

# Options of a model's ``generate`` that have a field of the same name, with the values that leave them out.
NEUTRAL_OPTIONS: Mapping[str, Any] = {
    "top_p": 1.0,
    "min_p": 0.0,
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
    "logit_bias": {},
    "seed": None,
}


@dataclass(frozen=True)
class GenerateRequest:
    """A checked request, with the defaults filled in."""

    prompt: str | list[int]  # a text, or the ids of one
    allow_special: bool
    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: Mapping[int, float]
    seed: int | None
    stop: tuple[str, ...]
    stop_at_eos: bool
    timeout_s: float | None
    echo: bool
    logprobs: int | None  # of the most likely tokens beside each; None for none at all
    stream: bool
    ping_s: int | None
    details: bool

    def sampling_options(self) -> dict[str, Any]:
        """Keyword arguments of a model's ``generate``. A model needs to know only those that are used."""
        options: dict[str, Any] = {"temperature": self.temperature, "top_k": self.top_k}
        for name, neutral in NEUTRAL_OPTIONS.items():
            value = getattr(self, name)
            if value != neutral:
                options[name] = value
        return options


def parse(body: bytes) -> GenerateRequest:
    """The request that the body of a POST /generate holds. Raises :class:`RequestError` (422)."""
    return request_of(SCHEMA.read(body))


def request_of(fields: dict[str, Any]) -> GenerateRequest:
    """From checked fields, one for each of GenerateRequest's."""
    stop = fields["stop"]
    biases = {int(token): float(bias) for token, bias in fields["logit_bias"].items()}
    strings = (stop,) if isinstance(stop, str) else tuple(stop)
    return GenerateRequest(**{**fields, "stop": strings, "logit_bias": biases})
