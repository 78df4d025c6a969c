"""Options that several commands have, and the values that they accept."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import kael
from kael import _signatures


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """A type for argparse: an integer in [low, high]."""
    return _within(low, high, int, "a whole number")


def whole_numbers(low: int, high: int) -> Callable[[str], list[int]]:
    """A type for argparse: integers with commas between them."""
    one = whole_number(low, high)
    return lambda text: [one(part) for part in text.split(",")]


def weight_formats(text: str) -> list[str]:
    """A type for argparse: dtypes of a model's weights with commas between them."""
    formats = [part.strip() for part in text.split(",")]
    for name in formats:
        if name not in _signatures.WEIGHT_FORMATS:
            raise argparse.ArgumentTypeError(
                f"expected some of {', '.join(_signatures.WEIGHT_FORMATS)}, not {name!r}"
            )
    return formats


def number(low: float, high: float) -> Callable[[str], float]:
    """A type for argparse: a number in [low, high]."""
    return _within(low, high, float, "a number")


def _within(low: Any, high: Any, kind: Callable[[str], Any], what: str) -> Callable[[str], Any]:
    def parse(text: str) -> Any:
        value = _converted(text, kind, what)
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"expected {low} to {high}, not {text}")
        return value

    return parse


def _converted(text: str, kind: Callable[[str], Any], what: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected {what}, not {text!r}") from None


def temperature(text: str) -> float:
    """A type for argparse: 0, or at least 0.001."""
    value: float = _converted(text, float, "a number")
    if not math.isfinite(value) or (value != 0 and value < 0.001):
        raise argparse.ArgumentTypeError(f"expected 0 or at least 0.001, not {text}")
    return value


def path(text: str) -> Path:
    """A type for argparse. An empty one, from a variable that is not set, must not mean another place."""
    if not text:
        raise argparse.ArgumentTypeError("expected a path, not ''")
    return Path(text)


def add_data(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=path,
        help="folder with model.safetensors, config.json, vocab.json and merges.txt "
        "(default: the model that the package ships)",
    )


def add_dtype(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--dtype",
        choices=_signatures.WEIGHT_FORMATS,
        default="float32",
        help="what to keep and multiply the weights in: with a large model bfloat16, int8 and int4 generate "
        "about twice, four and six times as fast; int4's text is noticeably worse (default: float32)",
    )


def add_threads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads",
        metavar="N",
        type=whole_number(1, 256),
        help="threads to compute with (default: KAEL_NUM_THREADS, else all processors)",
    )


def data_folder(options: argparse.Namespace) -> Path:
    """The folder that --data names, or that of the package's model."""
    folder: Path = options.data if options.data is not None else kael.default_model_path()
    has_model = (folder / "model.safetensors").exists()
    if not has_model and (folder / "training" / "checkpoint.safetensors").exists():
        raise kael.Error(
            f"{folder} holds a training without a model yet: python -m kael train --resume {folder} goes on",
            kael.ErrorCode.NOT_FOUND,
        )
    return folder


def apply_threads(options: argparse.Namespace) -> None:
    if options.threads is not None:
        kael.set_num_threads(options.threads)


def text_or_input(text: str | None, what: str) -> bytes:
    """The bytes of an argument as they were typed; of standard input without one, or with "-"."""
    if text is not None and text != "-":
        return os.fsencode(text)
    if sys.stdin is None:
        raise kael.Error(f"there is no {what}: standard input is closed")
    if text is None and sys.stdin.isatty():
        raise kael.Error(f"there is no {what}: give it as an argument or on standard input")
    return sys.stdin.buffer.read()


def require_known_tokens(folder: object, tokens: int, vocab_size: int) -> None:
    """Raises :class:`kael.Error` where the tokenizer of a model's folder has tokens that the model lacks."""
    if tokens > vocab_size:
        raise kael.Error(
            f"{folder}: the tokenizer has {tokens} tokens, the model only {vocab_size}: vocab.json and "
            "merges.txt are another model's",
            kael.ErrorCode.INVALID_FILE,
        )
