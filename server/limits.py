"""Limits of a request that are needed before the packages which read it are there."""

from __future__ import annotations

MAX_PROMPT_CHARACTERS = 8192

# A character of the Basic Multilingual Plane takes at most six bytes, as \uXXXX.
JSON_ESCAPE_FACTOR = 6
MAX_BODY_BYTES = JSON_ESCAPE_FACTOR * MAX_PROMPT_CHARACTERS + 1024
