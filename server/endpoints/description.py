"""GET / and GET /openapi.json: what there is to ask for. A browser gets a page at / that asks for it."""

from __future__ import annotations

from .. import openapi
from ..accept import prefers
from ..handlers import JSON_TYPE, BaseHandler, to_json
from .playground import PAGE_TYPE, FileHandler

ROUTES_ANSWER = {
    "type": "object",
    "required": ["routes"],
    "properties": {"routes": {"type": "object", "additionalProperties": {"type": "string"}}},
}


class RootHandler(FileHandler):
    """The routes, each in a line, or the page for whoever prefers one."""

    def set_default_headers(self) -> None:
        super().set_default_headers()
        self.add_header("Vary", "Accept")

    def _wants_page(self) -> bool:
        accept = self.request.headers.get("Accept", "")
        return self.request.method in ("GET", "HEAD") and prefers(accept, PAGE_TYPE, JSON_TYPE)

    def needs_key(self) -> bool:
        return super().needs_key() and not self._wants_page()

    def get(self) -> None:
        if self._wants_page():
            self.send_page()
            return
        routes = {f"{route.method} {route.path}": route.summary for route in self.application.routes}
        self.finish(to_json({"routes": routes}))

    head = get


class OpenApiHandler(BaseHandler):
    """The routes with their bodies and answers."""

    def get(self) -> None:
        needs_key = bool(self.application.server_settings.api_keys)
        self.finish(to_json(openapi.document(self.application.routes, needs_key)))

    head = get
