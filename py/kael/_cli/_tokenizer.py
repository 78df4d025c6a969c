"""Train a tokenizer on text files.

tokenizer train writes vocab.json and merges.txt, byte-level BPE as GPT-2 has it. The same texts give the same
files. Needs the package tokenizers: pip install tokenizers.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import kael
from kael import training
from kael._cli import _arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(title="actions", required=True, metavar="train")
    train = actions.add_parser(
        "train", help="train a tokenizer", description="Train a tokenizer on text files.", allow_abbrev=False
    )
    train.add_argument(
        "--text", metavar="FILE", nargs="+", type=_arguments.path, required=True, help="UTF-8 text files"
    )
    train.add_argument(
        "--to",
        metavar="DIR",
        type=_arguments.path,
        required=True,
        help="folder for vocab.json and merges.txt",
    )
    train.add_argument(
        "--vocab-size",
        metavar="N",
        type=_arguments.whole_number(257, 2**31 - 1),
        default=2048,
        help="how many tokens at most; 257 are the bytes and <|endoftext|> (default: 2048)",
    )


def run(options: argparse.Namespace) -> int:
    for name in ("vocab.json", "merges.txt"):
        if (Path(options.to) / name).exists():
            raise kael.Error(f"{options.to} holds a tokenizer already: give another folder")
    training.train_tokenizer(options.text, options.to, options.vocab_size)
    tokenizer = kael.BpeTokenizer.from_pretrained(options.to)
    print(f"{options.to}: {tokenizer.vocabulary_size} tokens")
    return 0
