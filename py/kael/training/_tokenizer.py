"""A tokenizer of one's own: byte-level BPE, trained by the package ``tokenizers``."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

from kael import _checks
from kael._errors import Error, ErrorCode
from kael._made_folder import made_folder
from kael._replaced_file import replace_file
from kael.training._corpus import read_text

Path = str | bytes | os.PathLike[Any]

# The bytes, and <|endoftext|>.
_SMALLEST_VOCABULARY = 257


def train_tokenizer(texts: Iterable[Path], folder: Path, vocab_size: int = 2048) -> None:
    """Writes ``vocab.json`` and ``merges.txt`` to ``folder``, for :class:`kael.BpeTokenizer`. The same texts
    give the same files.

    ``vocab_size`` is the most tokens it may have, at least 257: the bytes and ``<|endoftext|>``, which has
    the last id. A short text has fewer pairs to merge. Needs the package ``tokenizers``.
    """
    size = _checks.integer("vocab_size", vocab_size, _SMALLEST_VOCABULARY, _checks.INT32_MAX)
    target = os.fsdecode(_checks.path("folder", folder))
    try:
        from tokenizers import Tokenizer, models, pre_tokenizers, trainers
    except ImportError:
        raise Error(
            "training a tokenizer needs the package tokenizers: pip install tokenizers",
            ErrorCode.UNSUPPORTED,
        ) from None
    contents = [read_text(text) for text in texts]
    # The trainer reserves memory for as many tokens as it may make, and every merge needs a pair in the text.
    size = min(size, _SMALLEST_VOCABULARY + sum(len(content.encode()) for content in contents))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trainer = trainers.BpeTrainer(
        vocab_size=size - 1,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    tokenizer.train_from_iterator(contents, trainer)
    tokenizer.add_special_tokens(["<|endoftext|>"])
    _write(tokenizer, target)


def _write(tokenizer: Any, folder: str) -> None:
    import json

    model = json.loads(tokenizer.to_str())["model"]
    vocabulary = {**model["vocab"], "<|endoftext|>": len(model["vocab"])}
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in model["merges"]]
    in_order = dict(sorted(vocabulary.items(), key=lambda item: item[1]))
    with made_folder(folder):
        replace_file(os.path.join(folder, "vocab.json"), json.dumps(in_order, ensure_ascii=False).encode())
        replace_file(os.path.join(folder, "merges.txt"), "\n".join(["#version: 0.2", *merges, ""]).encode())
