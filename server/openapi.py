"""The description of the server in the form of OpenAPI, from the very schemas that bodies are checked by."""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from . import __version__
from .route import Response, Route

JSON = "application/json"

_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {"type": "string"},
        "details": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["field", "rule", "message"],
                "properties": {
                    "field": {"type": "string", "description": "a JSON pointer; empty for the whole body"},
                    "rule": {"type": "string"},
                    "limit": {"type": "number"},
                    "message": {"type": "string"},
                },
            },
        },
        "request_id": {"type": "string"},
    },
}
_OPENAI_ERROR = {
    "type": "object",
    "required": ["error"],
    "properties": {
        "error": {
            "type": "object",
            "required": ["message", "type", "param", "code"],
            "properties": {
                "message": {"type": "string"},
                "type": {"type": "string"},
                "param": {"type": ["string", "null"]},
                "code": {"type": ["string", "null"]},
            },
        }
    },
}
_ERRORS = {"Error": _ERROR, "OpenAIError": _OPENAI_ERROR}

# Of every route: the key, the host or the origin is not right, the method is another, something failed.
_COMMON_REFUSALS = (401, 403, 405, 500)


def document(routes: Iterable[Route], needs_key: bool) -> dict[str, Any]:
    """The description of ``routes``."""
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    described: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {"title": "kael", "version": __version__},
        "paths": paths,
        "components": {"schemas": _ERRORS},
    }
    if needs_key:
        described["components"]["securitySchemes"] = {"key": {"type": "http", "scheme": "bearer"}}
        described["security"] = [{"key": []}]
    return described


def _operation(route: Route) -> dict[str, Any]:
    name = "OpenAIError" if route.path.startswith("/v1/") else "Error"
    refusal = {"content": {JSON: {"schema": {"$ref": f"#/components/schemas/{name}"}}}}
    good = {response.status: _content(response) for response in route.responses}
    refusals = {status: {**refusal} for status in (*_COMMON_REFUSALS, *route.refusals)}
    responses = {
        str(status): {"description": HTTPStatus(status).phrase, **described}
        for status, described in sorted((refusals | good).items())
    }
    operation: dict[str, Any] = {"summary": route.summary, "responses": responses}
    if route.body is not None:
        schema = {name: rules for name, rules in route.body.document.items() if name != "$schema"}
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": schema}}}
    if route.parameters:
        operation["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in route.parameters
        ]
    return operation


def _content(response: Response) -> dict[str, Any]:
    content: dict[str, Any] = {kind: {} for kind in response.texts}
    if response.schema is not None:
        content[JSON] = {"schema": response.schema}
    return {"content": content}
