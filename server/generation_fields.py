"""The fields that every request for a text may have, and their limits: the one place that states them."""

from __future__ import annotations

from typing import Any

MAX_NEW_TOKENS = 512
MAX_TOP_K = 1_000_000
MIN_TEMPERATURE = 0.001
MAX_TEMPERATURE = 10
MAX_SEED = 2**64 - 1
MIN_REPETITION_PENALTY = 0.01
MAX_REPETITION_PENALTY = 10
MAX_PENALTY = 2
MAX_BIAS = 100
MAX_BIASES = 1024
MAX_LOGPROBS = 20
MAX_STOPS = 16
MAX_STOP_CHARACTERS = 200
MAX_TIMEOUT_SECONDS = 3600
MAX_PING_SECONDS = 3600

_STOP_STRING = {"type": "string", "minLength": 1, "maxLength": MAX_STOP_CHARACTERS}
_PENALTY = {"type": "number", "minimum": -MAX_PENALTY, "maximum": MAX_PENALTY, "default": 0.0}


def sampling(temperature: float, top_k: int) -> dict[str, dict[str, Any]]:
    """How tokens are chosen. The two endpoints have defaults of their own."""
    return {
        "temperature": {
            "type": "number",
            "minimum": 0,
            "maximum": MAX_TEMPERATURE,
            # Logits divided by less can overflow to infinity.
            "not": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": MIN_TEMPERATURE},
            "default": temperature,
            "description": "0 takes the most likely token each time",
        },
        "top_k": {
            "type": "integer",
            "minimum": 0,
            "maximum": MAX_TOP_K,
            "default": top_k,
            "description": "choose among the so many most likely tokens; 0: among all",
        },
        "top_p": {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "default": 1.0,
            "description": "of those, among the fewest whose probabilities sum to it",
        },
        "min_p": {
            "type": "number",
            "minimum": 0,
            "maximum": 1,
            "default": 0.0,
            "description": "of those, among the ones at least so many times as likely as the most likely",
        },
        "repetition_penalty": {
            "type": "number",
            "minimum": MIN_REPETITION_PENALTY,
            "maximum": MAX_REPETITION_PENALTY,
            "default": 1.0,
            "description": "above 1 makes the tokens of the prompt and the text less likely",
        },
        "presence_penalty": {
            **_PENALTY,
            "description": "taken from the logits of tokens that were generated",
        },
        "frequency_penalty": {**_PENALTY, "description": "the same, as often as they were generated"},
        "logit_bias": {
            "type": "object",
            "propertyNames": {"pattern": "^(0|[1-9][0-9]{0,9})$"},
            "additionalProperties": {"type": "number", "minimum": -MAX_BIAS, "maximum": MAX_BIAS},
            "maxProperties": MAX_BIASES,
            "default": {},
            "x-messages": {"pattern": "must have token ids for names"},
            "description": "added to the logits of tokens, by id",
        },
        "seed": {
            "type": "integer",
            "minimum": 0,
            "maximum": MAX_SEED,
            "description": "the same seed gives the same text; a new one without it",
        },
    }


def ending(stop_at_eos: bool) -> dict[str, dict[str, Any]]:
    """What ends a text before max_tokens."""
    return {
        "stop": {
            **_STOP_STRING,
            "type": ["string", "array"],
            "items": _STOP_STRING,
            "maxItems": MAX_STOPS,
            "default": [],
            "description": "strings before which the text ends",
        },
        "stop_at_eos": {
            "type": "boolean",
            "default": stop_at_eos,
            "description": "end at <|endoftext|>, which is no part of the text",
        },
        "timeout_s": {
            "type": "number",
            "exclusiveMinimum": 0,
            "maximum": MAX_TIMEOUT_SECONDS,
            "description": "seconds of the generation, after which it ends with what there is",
        },
    }


TOKEN_ID = {"type": "integer", "minimum": 0, "maximum": 2**31 - 1}

ALLOW_SPECIAL = {
    "type": "boolean",
    "default": False,
    "description": "<|endoftext|> in the text is the token of that name; else it is plain text",
}
STREAMING: dict[str, dict[str, Any]] = {
    "stream": {"type": "boolean", "default": False, "description": "send the text as it is made"},
    "ping_s": {
        "type": "integer",  # none so small that comments are all that a stream says
        "minimum": 0,
        "maximum": MAX_PING_SECONDS,
        "description": "seconds between two comments of a stream that has nothing to say, 0 for none; the "
        "server's --ping-seconds without it",
    },
}
ECHO = {"type": "boolean", "default": False, "description": "begin the text with the prompt"}
LOGPROBS = {
    "type": "integer",
    "minimum": 0,
    "maximum": MAX_LOGPROBS,
    "description": "log probabilities of each token and of so many of the most likely ones",
}
