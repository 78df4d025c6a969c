"""GET / and GET /openapi.json: what there is to ask for."""

from __future__ import annotations

from .. import openapi
from ..handlers import BaseHandler, to_json

ROUTES_ANSWER = {
    "type": "object",
    "required": ["routes"],
    "properties": {"routes": {"type": "object", "additionalProperties": {"type": "string"}}},
}


class RoutesHandler(BaseHandler):
    """The routes, each in a line."""

    def get(self) -> None:
        routes = {f"{route.method} {route.path}": route.summary for route in self.application.routes}
        self.finish(to_json({"routes": routes}))

    head = get


class OpenApiHandler(BaseHandler):
    """The routes with their bodies and answers."""

    def get(self) -> None:
        needs_key = bool(self.application.server_settings.api_keys)
        self.finish(to_json(openapi.document(self.application.routes, needs_key)))

    head = get
