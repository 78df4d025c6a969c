"""Show the token ids of a text, and the piece that each stands for."""

from __future__ import annotations

import argparse
import json
import sys

import kael
from kael._cli import _arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _arguments.add_data(parser)
    parser.add_argument(
        "text", nargs="?", metavar="TEXT", help="what to encode (default, or with -: standard input)"
    )
    parser.add_argument(
        "--allow-special", action="store_true", help="read <|endoftext|> as the special token"
    )
    parser.add_argument(
        "--json", action="store_true", help='{"ids": [...], "tokens": [{"id", "bytes" (hex), "text"}]}'
    )


def run(options: argparse.Namespace) -> int:
    tokenizer = kael.BpeTokenizer.from_pretrained(_arguments.data_folder(options))
    ids = tokenizer.encode(_arguments.text_or_input(options.text, "text"), options.allow_special)
    pieces = [tokenizer.decode([token]) for token in ids]
    if options.json:
        tokens = [
            {"id": token, "bytes": piece.hex(), "text": _text(piece)}
            for token, piece in zip(ids, pieces, strict=True)
        ]
        print(json.dumps({"ids": ids, "tokens": tokens}))
        return 0
    sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
    width = len(str(max(ids, default=0)))
    for token, piece in zip(ids, pieces, strict=True):
        text = _text(piece)
        print(f"{token:{width}}  {piece if text is None else text!r}")
    return 0


def _text(piece: bytes) -> str | None:
    """The piece as text; None for a part of a character."""
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return None
