"""How well a model predicts a text in each dtype."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kael
from kael._cli._progress_line import Progress

# Windows of the context's length, from all over the text.
_WINDOWS = 32


def read_text(folder: Path, path: Path) -> list[int]:
    """The tokens of a text file, by the tokenizer in ``folder``."""
    if not path.is_file():
        raise kael.Error(f"--text: {path} is no file, expected one of text", kael.ErrorCode.NOT_FOUND)
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise kael.Error(
            f"--text: {path} is no UTF-8 text (byte {error.start}), expected one", kael.ErrorCode.INVALID_FILE
        ) from error
    ids = kael.BpeTokenizer.from_pretrained(folder).encode(text)
    if len(ids) < 2:
        raise kael.Error(f"--text: {path} has {len(ids)} tokens, expected at least 2")
    return ids


def measure_quality(
    folder: Path, dtypes: Sequence[str], ids: list[int], progress: Progress
) -> list[dict[str, Any]]:
    """The perplexity in each of ``dtypes``, its ratio to that of float32, and at how many of the positions
    (0 to 1) the most likely token is float32's.
    """
    exact_nats, exact_best = _predict(folder, "float32", ids, progress)
    rows = []
    for dtype in dtypes:
        nats, best = (
            (exact_nats, exact_best) if dtype == "float32" else _predict(folder, dtype, ids, progress)
        )
        rows.append(
            {
                "dtype": dtype,
                "tokens": len(best),
                "nats_per_token": nats,
                "perplexity": _exp(nats),
                "perplexity_ratio": _exp(nats - exact_nats),
                "agreement": sum(a == b for a, b in zip(best, exact_best, strict=True)) / len(best),
            }
        )
    return rows


def _exp(nats: float) -> float | None:
    """None where it is beyond a float."""
    return math.exp(nats) if nats < 700 else None


def _predict(folder: Path, dtype: str, ids: list[int], progress: Progress) -> tuple[float, list[int]]:
    """The mean loss over the windows, and the most likely token at each of their positions."""
    model = kael.GPT.from_pretrained(folder, dtype=dtype)
    length = min(model.config.max_positions, len(ids))
    if length < 2:
        raise kael.Error("--text: the model has 1 position, expected at least 2")
    count = min(_WINDOWS, len(ids) // length)
    losses, best = [], []
    for window in range(count):
        progress.show(f"{dtype}, text: window {window + 1} of {count}")
        start = window * (len(ids) // count)
        logprobs = kael.Logprobs(max_tokens=0, top=1, prompt_tokens=length)
        model.generate(ids[start : start + length], 0, logprobs=logprobs)
        for position in range(1, length):
            entry = logprobs.prompt_token(position)
            losses.append(-entry.logprob)
            best.append(entry.top[0][0])
    return math.fsum(losses) / len(losses), best
