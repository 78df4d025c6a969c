"""What is known of a route before anybody asks."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from tornado.web import RequestHandler

from .schema import Schema


@dataclass(frozen=True)
class Response:
    """What comes with one status: JSON of a schema, or texts of these content types."""

    schema: dict[str, Any] | None = None
    texts: tuple[str, ...] = ()
    status: int = 200


@dataclass(frozen=True)
class Route:
    """A path with one method. HEAD works where GET does, and OPTIONS everywhere."""

    method: str
    path: str  # as OpenAPI writes it: {name} for a part that varies
    handler: type[RequestHandler]
    summary: str
    responses: tuple[Response, ...]  # good ones
    body: Schema | None = None
    refusals: tuple[int, ...] = field(default=())  # statuses beside those that every route has

    @property
    def parameters(self) -> list[str]:
        """The parts of the path that vary."""
        return re.findall(r"{(\w+)}", self.path)

    @property
    def pattern(self) -> str:
        """The path as Tornado matches it."""
        return re.sub(r"{\w+}", "(.+)", self.path)
