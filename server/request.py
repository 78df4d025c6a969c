"""The body of POST /generate: strict JSON, checked against a schema, into a GenerateRequest.

Nothing that goes out of here holds a value, or an unknown name, from the body.
"""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import dataclass
from typing import Any, NoReturn

import jsonschema

from .errors import RequestError, invalid
from .limits import MAX_PROMPT_CHARACTERS

MAX_NEW_TOKENS = 512
MAX_TOP_K = 1_000_000
MIN_TEMPERATURE = 0.001
MAX_TEMPERATURE = 10
MAX_SEED = 2**64 - 1

# Errors that are looked at: a hostile body can break a rule thousands of times.
MAX_ERRORS = 16

# Of an integer. More than the limit of any field has.
_READ_DIGITS = 100

SCHEMA: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "required": ["prompt"],
    "properties": {
        "prompt": {"type": "string", "minLength": 1, "maxLength": MAX_PROMPT_CHARACTERS},
        "max_tokens": {"type": "integer", "minimum": 1, "maximum": MAX_NEW_TOKENS, "default": 64},
        "temperature": {
            "type": "number",
            "minimum": 0,
            "maximum": MAX_TEMPERATURE,
            # Logits divided by less can overflow to infinity.
            "not": {"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": MIN_TEMPERATURE},
            "default": 0.8,
        },
        "top_k": {"type": "integer", "minimum": 0, "maximum": MAX_TOP_K, "default": 40},
        "seed": {"type": "integer", "minimum": 0, "maximum": MAX_SEED, "default": None},
        "stop_at_eos": {"type": "boolean", "default": False},
        "stream": {"type": "boolean", "default": False},
        "details": {"type": "boolean", "default": False},
    },
}
_PROPERTIES: dict[str, dict[str, Any]] = SCHEMA["properties"]
_VALIDATOR = jsonschema.Draft202012Validator(SCHEMA)

_TYPES = {
    "string": "must be a string",
    "integer": "must be a whole number",
    "number": "must be a number",
    "boolean": "must be true or false",
    "object": "must be a JSON object",
}
_MESSAGES = {
    "minLength": "must have {} or more characters",
    "maxLength": "must have at most {} characters",
    "minimum": "must be at least {}",
    "maximum": "must be at most {}",
}


@dataclass(frozen=True)
class GenerateRequest:
    """A checked request, with the defaults filled in."""

    prompt: str
    max_tokens: int
    temperature: float
    top_k: int
    seed: int | None
    stop_at_eos: bool
    stream: bool
    details: bool


def parse(body: bytes) -> GenerateRequest:
    """The request that a body holds. Raises :class:`RequestError` (422) with up to MAX_ERRORS details."""
    value = _load(body)
    if not isinstance(value, dict):
        raise _broken("type", _TYPES["object"])
    # null is the default, and a field that is not known is ignored.
    given = {name: value[name] for name in _PROPERTIES if value.get(name) is not None}
    errors = itertools.islice(_VALIDATOR.iter_errors(given), MAX_ERRORS)
    details = [_detail(error) for error in errors]
    if details:
        raise invalid(details)
    return GenerateRequest(**{name: _value(name, given) for name in _PROPERTIES})


def _value(name: str, given: dict[str, Any]) -> Any:
    rules = _PROPERTIES[name]
    if name not in given:
        return rules["default"]
    # JSON Schema takes 64.0 for an integer, and so does this server.
    convert = {"integer": int, "number": float}.get(rules["type"])
    return convert(given[name]) if convert else given[name]


def _detail(error: jsonschema.ValidationError) -> dict[str, Any]:
    """An error in constant words. What jsonschema says of it holds the value."""
    rule, limit = str(error.validator), error.validator_value
    if rule == "required":
        # The one required field is the one that is missing.
        return {"field": f"/{limit[0]}", "rule": rule, "message": "is required"}
    field = f"/{error.absolute_path[0]}"
    if rule == "type":
        return {"field": field, "rule": rule, "message": _TYPES[limit]}
    if rule == "not":
        limit = limit["exclusiveMaximum"]
        return {
            "field": field,
            "rule": "minimum",
            "limit": limit,
            "message": f"must be 0 or at least {limit}",
        }
    return {"field": field, "rule": rule, "limit": limit, "message": _MESSAGES[rule].format(limit)}


def field_error(field: str, rule: str, message: str) -> RequestError:
    """What only a later step finds wrong in a field."""
    return invalid([{"field": field, "rule": rule, "message": message}])


def _broken(rule: str, message: str) -> RequestError:
    return field_error("", rule, message)


def _load(body: bytes) -> Any:
    """The JSON value of a body. Python's reader takes more than JSON is: see each refusal."""
    try:
        text = body.decode("utf-8")  # json.loads(bytes) would guess UTF-16 and let surrogates through
    except UnicodeDecodeError:
        raise _broken("utf8", "must be UTF-8") from None
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_int=_integer,
            parse_float=_finite_float,
            object_pairs_hook=_unique_names,
        )
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise _broken("unicode", "must not hold half of a surrogate pair") from None
    except RecursionError:
        raise _broken("depth", "is nested too deeply") from None
    except json.JSONDecodeError:
        raise _broken("json", "must be valid JSON") from None
    return value


def _refuse_constant(_: str) -> NoReturn:
    raise _broken("number", "must not hold NaN or Infinity")


def _integer(digits: str) -> int:
    """One of so many digits is out of every range, however it goes on; Python reads 4,300 of them at most."""
    return int(digits[:_READ_DIGITS])


def _finite_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise _broken("number", "must not hold a number beyond the range of a double")
    return number


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) < len(pairs):
        raise _broken("duplicate", "must not hold a name twice in one object")
    return names
