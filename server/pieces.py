"""Tokens as clients see them."""

from __future__ import annotations

from typing import Any

# The schema of what ``describe`` gives.
PIECE: dict[str, Any] = {
    "type": "object",
    "required": ["token", "text", "bytes"],
    "properties": {
        "token": {"type": "integer"},
        "text": {"type": "string"},
        "bytes": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 255}},
    },
}


def describe(token: int, data: bytes) -> dict[str, Any]:
    """A token by its id, and by the bytes that it stands for: some are parts of characters."""
    return {"token": token, "text": data.decode("utf-8", "replace"), "bytes": list(data)}
