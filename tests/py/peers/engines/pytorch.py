"""PyTorch: transformers' model, called once a token with its cache, which is faster than generate()."""

from __future__ import annotations

from pathlib import Path

import torch
import transformers

from peers.interface import Stepwise


class _Engine(Stepwise):
    def __init__(self, source: Path, dtype: str) -> None:
        self._model = transformers.GPT2LMHeadModel.from_pretrained(
            source, dtype=getattr(torch, dtype), attn_implementation="sdpa"
        ).eval()

    def forget(self) -> None:
        self._cache = transformers.DynamicCache(config=self._model.config)

    def step(self, ids: list[int]) -> int:
        output = self._model(torch.tensor([ids]), cache=self._cache, use_cache=True, logits_to_keep=1)
        return int(output.logits[0, -1].argmax())


def load(source: Path, _folder: Path, dtype: str, threads: int) -> _Engine:
    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    transformers.utils.logging.disable_progress_bar()
    return _Engine(source, dtype)
