"""llama.cpp, by the functions of its C interface that llama-cpp-python binds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import llama_cpp as library
import numpy as np

from peers.interface import Stepwise

FILE = "model.gguf"


@library.llama_log_callback
def say_nothing(_level: int, _text: bytes, _data: Any) -> None:
    pass


class _Engine(Stepwise):
    def __init__(self, folder: Path, threads: int) -> None:
        self._model = library.llama_model_load_from_file(
            str(folder / FILE).encode(), library.llama_model_default_params()
        )
        if not self._model:
            raise RuntimeError(f"llama.cpp does not load {folder / FILE}")
        positions = library.llama_model_n_ctx_train(self._model)
        options = library.llama_context_default_params()
        options.n_ctx = options.n_batch = positions
        options.n_threads = options.n_threads_batch = threads
        self._context = library.llama_init_from_model(self._model, options)
        if not self._context:
            raise RuntimeError(f"llama.cpp makes no context of {positions} positions")
        self._vocabulary = library.llama_vocab_n_tokens(library.llama_model_get_vocab(self._model))

    def forget(self) -> None:
        library.llama_memory_clear(library.llama_get_memory(self._context), False)

    def step(self, ids: list[int]) -> int:
        tokens = (library.llama_token * len(ids))(*ids)
        status = library.llama_decode(self._context, library.llama_batch_get_one(tokens, len(ids)))
        if status != 0:
            raise RuntimeError(f"llama_decode ended with {status}")
        logits = library.llama_get_logits_ith(self._context, -1)
        return int(np.ctypeslib.as_array(logits, (self._vocabulary,)).argmax())


def load(_source: Path, folder: Path, _dtype: str, threads: int) -> _Engine:
    library.llama_log_set(say_nothing, None)
    library.llama_backend_init()
    return _Engine(folder, threads)
