"""kael itself, by its public names."""

from __future__ import annotations

from pathlib import Path

import kael
from peers.interface import Answer, Stamps


class _Engine:
    def __init__(self, source: Path, dtype: str) -> None:
        self._model = kael.GPT.from_pretrained(source, dtype=dtype)

    def generate(self, prompt: list[int], count: int) -> Answer:
        stamps = Stamps()
        self._model.generate(prompt, count, temperature=0.0, on_token=stamps.add)
        return stamps.answer()


def load(source: Path, _folder: Path, dtype: str, threads: int) -> _Engine:
    kael.set_num_threads(threads)
    return _Engine(source, dtype)
