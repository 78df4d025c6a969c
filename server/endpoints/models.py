"""GET /v1/models and GET /v1/models/NAME."""

from __future__ import annotations

from typing import Any

from ..errors import RequestError
from ..handlers import to_json
from ..openai_errors import OpenAIErrors

MODEL = {
    "type": "object",
    "required": ["id", "object", "created", "owned_by"],
    "properties": {
        "id": {"type": "string"},
        "object": {"const": "model"},
        "created": {"type": "integer", "description": "when it was loaded, in seconds of Unix time"},
        "owned_by": {"type": "string"},
    },
}
LIST = {
    "type": "object",
    "required": ["object", "data"],
    "properties": {"object": {"const": "list"}, "data": {"type": "array", "items": MODEL}},
}


class ModelsHandler(OpenAIErrors):
    """The one model, in a list."""

    def get(self) -> None:
        self.finish(to_json({"object": "list", "data": [_model(self.application.generator)]}))

    head = get


class ModelHandler(OpenAIErrors):
    """The one model, by its name."""

    def get(self, name: str) -> None:
        generator = self.application.generator
        if name == generator.name:
            self.finish(to_json(_model(generator)))
        else:
            self.write_refusal(RequestError(404, {"error": "no such model"}, "rejected", "model"))
            self.finish()

    head = get


def _model(generator: Any) -> dict[str, Any]:
    return {"id": generator.name, "object": "model", "created": generator.created, "owned_by": "kael"}
