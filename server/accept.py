"""What a client would rather have, as its Accept header says it."""

from __future__ import annotations


def prefers(accept: str, kind: str, other: str) -> bool:
    """Whether a client with this header wants the content type ``kind`` more than ``other``. Without a header
    it wants neither more; a broken weight is 0."""
    return _weight(accept, kind) > _weight(accept, other)


def _weight(accept: str, kind: str) -> float:
    """From 0, not at all, to 1. The most exact of the ranges that hold ``kind`` decides."""
    ranges = [kind, f"{kind.partition('/')[0]}/*", "*/*"]
    weights: dict[str, float] = {}
    for part in accept.lower().split(","):
        name, *parameters = (word.strip() for word in part.split(";"))
        weights[name] = _quality(parameters)
    return next((weights[name] for name in ranges if name in weights), 0.0)


def _quality(parameters: list[str]) -> float:
    given = next((text[2:] for text in parameters if text.startswith("q=")), "1")
    try:
        quality = float(given)
    except ValueError:
        return 0.0
    return quality if 0.0 <= quality <= 1.0 else 0.0
