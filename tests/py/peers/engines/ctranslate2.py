"""CTranslate2. It generates all tokens in one call, which tells of each by a callback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ctranslate2

from peers.interface import Answer, Stamps


class _Engine:
    def __init__(self, folder: Path, dtype: str, threads: int) -> None:
        self._generator = ctranslate2.Generator(
            str(folder), device="cpu", compute_type=dtype, inter_threads=1, intra_threads=threads
        )

    def generate(self, prompt: list[int], count: int) -> Answer:
        stamps = Stamps()

        def on_token(result: Any) -> bool:
            stamps.add(result.token_id)
            return False

        self._generator.generate_batch(
            [[word(token) for token in prompt]],
            max_length=count,
            min_length=count,
            end_token=[],
            beam_size=1,
            sampling_topk=1,
            include_prompt_in_result=False,
            callback=on_token,
        )
        return stamps.answer()


def load(_source: Path, folder: Path, dtype: str, threads: int) -> _Engine:
    return _Engine(folder, dtype, threads)


def word(token: int) -> str:
    """The engine takes text; no tokenizer is measured, so an id is its own word."""
    return str(token)
