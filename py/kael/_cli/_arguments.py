"""Options that several commands have, and the values that they accept."""

from __future__ import annotations

import argparse
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

import kael


def whole_number(low: int, high: int) -> Callable[[str], int]:
    """A type for argparse: an integer in [low, high]."""

    def parse(text: str) -> int:
        try:
            number = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a whole number, not {text!r}") from None
        if not low <= number <= high:
            raise argparse.ArgumentTypeError(f"expected {low} to {high}, not {text}")
        return number

    return parse


def whole_numbers(low: int, high: int) -> Callable[[str], list[int]]:
    """A type for argparse: integers with commas between them."""
    one = whole_number(low, high)
    return lambda text: [one(part) for part in text.split(",")]


def number(low: float, high: float) -> Callable[[str], float]:
    """A type for argparse: a number in [low, high]."""

    def parse(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"expected a number, not {text!r}") from None
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(f"expected {low:g} to {high:g}, not {text}")
        return value

    return parse


def temperature(text: str) -> float:
    """A type for argparse: 0, or at least 0.001."""
    try:
        number = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected a number, not {text!r}") from None
    if not math.isfinite(number) or (number != 0 and number < 0.001):
        raise argparse.ArgumentTypeError(f"expected 0 or at least 0.001, not {text}")
    return number


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


def add_threads(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--threads",
        metavar="N",
        type=whole_number(1, 256),
        help="threads to compute with (default: KAEL_NUM_THREADS, else all processors)",
    )


def data_folder(options: argparse.Namespace) -> Path:
    """The folder that --data names, or that of the package's model."""
    return options.data if options.data is not None else kael.default_model_path()


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
