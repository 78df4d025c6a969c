"""A JSON schema at work: which fields a body has, and in constant words what is wrong with them.

What jsonschema itself says of an error holds the value. Nothing that goes out of here does, nor a name that
the schema does not know.
"""

from __future__ import annotations

import itertools
from typing import Any, cast

import jsonschema

from . import strict_json
from .errors import RequestError, invalid

# Errors that are looked at: a hostile body can break a rule thousands of times.
MAX_ERRORS = 16

_TYPES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a JSON object",
    "array": "an array",
}
_MESSAGES = {
    "minLength": "must have {} or more characters",
    "maxLength": "must have at most {} characters",
    "minimum": "must be at least {}",
    "exclusiveMinimum": "must be above {}",
    "maximum": "must be at most {}",
    "minItems": "must have {} or more entries",
    "maxItems": "must have at most {} entries",
    "maxProperties": "must have at most {} entries",
    "const": "must be {}",
}


class Schema:
    """The fields of a body. Each has its rules, a ``default`` unless that is None, and a ``description``.

    A rule that this class has no words for needs them beside it, under ``x-messages``, by the rule's name.
    """

    def __init__(self, properties: dict[str, dict[str, Any]], required: tuple[str, ...] = ()) -> None:
        self.properties = properties
        self.document: dict[str, Any] = {
            "$schema": jsonschema.Draft202012Validator.META_SCHEMA["$id"],
            "type": "object",
            "required": list(required),
            "properties": {
                name: rules if name in required else {**rules, "type": _or_null(rules["type"])}
                for name, rules in properties.items()
            },
        }
        self._validator = jsonschema.Draft202012Validator(self.document)

    def check(self) -> None:
        """Raises jsonschema's SchemaError where the document is no schema."""
        jsonschema.Draft202012Validator.check_schema(self.document)

    def read(self, body: bytes) -> dict[str, Any]:
        """Every field's value, that of the default where it is missing or null; fields that are not known are
        ignored. Raises :class:`RequestError` (422) with up to MAX_ERRORS details."""
        value = strict_json.load(body)
        if not isinstance(value, dict):
            raise strict_json.broken("type", f"must be {_TYPES['object']}")
        given = {name: value[name] for name in self.properties if value.get(name) is not None}
        errors = itertools.islice(self._validator.iter_errors(given), MAX_ERRORS)
        details = [self._detail(error) for error in errors]
        if details:
            raise invalid(details)
        return {
            name: _converted(given[name], rules) if name in given else rules.get("default")
            for name, rules in self.properties.items()
        }

    def _detail(self, error: jsonschema.ValidationError) -> dict[str, Any]:
        rule, limit = str(error.validator), cast(Any, error.validator_value)
        if rule == "required":
            missing = next(name for name in limit if name not in cast(Any, error.instance))
            return {"field": f"/{missing}", "rule": rule, "message": "is required"}
        field = _pointer(error)
        messages = self.properties[str(error.absolute_path[0])].get("x-messages", {})
        if rule in messages:
            return {"field": field, "rule": rule, "message": messages[rule]}
        if rule == "type":
            kinds = " or ".join(_TYPES[name] for name in _types(limit) if name != "null")
            return {"field": field, "rule": rule, "message": f"must be {kinds}"}
        if rule == "not":  # the one use of it: a range that is left out
            limit = limit["exclusiveMaximum"]
            message = f"must be 0 or at least {limit}"
            return {"field": field, "rule": "minimum", "limit": limit, "message": message}
        return {"field": field, "rule": rule, "limit": limit, "message": _MESSAGES[rule].format(limit)}


def field_error(field: str, rule: str, message: str) -> RequestError:
    """What only a later step finds wrong in a field."""
    return invalid([{"field": field, "rule": rule, "message": message}])


def _types(rule: str | list[str]) -> list[str]:
    return [rule] if isinstance(rule, str) else rule


def _or_null(rule: str | list[str]) -> list[str]:
    return [*_types(rule), "null"]


def _pointer(error: jsonschema.ValidationError) -> str:
    """Where the error is: a field of the schema and the places in its arrays, but no names that the client
    chose."""
    name, *rest = error.absolute_path
    places = itertools.takewhile(lambda part: isinstance(part, int), rest)
    return "/" + "/".join(map(str, [name, *places]))


def _converted(value: Any, rules: dict[str, Any]) -> Any:
    # JSON Schema takes 64.0 for an integer, and so does this server.
    if rules["type"] == "integer":
        return int(value)
    return float(value) if rules["type"] == "number" else value
