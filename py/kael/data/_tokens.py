"""A long text as token ids: its file, and the batches that a language model is trained on."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from kael import _checks
from kael._borrowing import from_numpy
from kael._errors import Error, ErrorCode
from kael._safetensors import SafeTensors, load_safetensors, save_safetensors
from kael._tensor import Tensor

Path = str | bytes | os.PathLike[Any]

# Of the one tensor in a file of token ids.
_NAME = "tokens"

# Of SplitMix64: what its state grows by.
_GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)


def save_tokens(path: Path, ids: Any, metadata: Mapping[str, str] | None = None) -> None:
    """Writes token ids [N] as int32 to a safetensors file, in the way of :func:`kael.save_safetensors`.
    ``metadata`` has room for where they come from.
    """
    array = _checks.token_ids("ids", ids)
    if array.size and not 0 <= array.min() <= array.max() <= _checks.INT32_MAX:
        raise Error(f"ids run from {array.min()} to {array.max()}, expected 0 to {_checks.INT32_MAX}")
    save_safetensors(path, {_NAME: array.astype(np.int32)}, metadata)


def load_tokens(path: Path) -> SafeTensors:
    """What :func:`save_tokens` wrote: ``["tokens"]``, int32 [N], mapped and not read to memory, and
    ``.metadata``. The file must not be truncated while the tensor lives.
    """
    file = load_safetensors(path, mode="mapped")
    tokens = file.get(_NAME)
    if tokens is None or tokens.dtype != "int32" or len(tokens.shape) != 1:
        found = "none" if tokens is None else f"{tokens.dtype} {list(tokens.shape)}"
        raise Error(
            f"{os.fsdecode(path)} is no file of token ids: expected {_NAME!r}, int32 [N], found {found}",
            ErrorCode.INVALID_FILE,
        )
    return file


class TokenBatches:
    """Endless batches of windows of a text: ``batches[step]`` is ``(inputs, targets)``, both int64
    [batch_size, context], the targets one token further on.

    Every epoch cuts the text anew into windows that do not overlap, from another first token, and takes each
    once, in an order of its own. A batch depends on ``tokens``, the sizes, ``seed`` and ``step`` alone, so
    that an interrupted training goes on with the batch it would have taken. Any number of threads.

    ``tokens``: ids [N] with N above ``context``: a tensor, an array or a list. A mapped tensor stays in its
    file but for the windows of a batch.
    """

    def __init__(self, tokens: Any, batch_size: int, context: int, seed: int = 0) -> None:
        array = tokens.numpy() if isinstance(tokens, Tensor) else np.asarray(tokens)
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise TypeError(f"tokens must be integers [N], not {array.dtype} {list(array.shape)}")
        self._tokens = array
        self.batch_size = _checks.integer("batch_size", batch_size, 1, _checks.INT32_MAX)
        self.context = _checks.integer("context", context, 1, _checks.INT32_MAX)
        self.seed = _checks.integer("seed", seed, 0, _checks.UINT64_MAX)
        if array.size <= context:
            raise Error(
                f"the text has {array.size} tokens, expected at least {context + 1}, a context of {context} "
                "and one token to predict: give more text or a shorter context"
            )
        #: Windows of one epoch. What is left over, at least a window where there is more than one, is where
        #: the first token of an epoch may be.
        self.windows_per_epoch = max(1, array.size // context - 1)
        self._epoch = functools.lru_cache(maxsize=2)(self._cut)

    @property
    def batches_per_epoch(self) -> float:
        """Steps that see every token about once."""
        return self.windows_per_epoch / self.batch_size

    def __getitem__(self, step: int) -> tuple[Tensor, Tensor]:
        first = _checks.integer("step", step, 0, _checks.INT64_MAX // self.batch_size - 1) * self.batch_size
        try:
            windows = np.empty((self.batch_size, self.context + 1), np.int64)
        except MemoryError:
            raise Error(
                f"no memory for a batch of {self.batch_size} windows of {self.context} tokens",
                ErrorCode.OUT_OF_MEMORY,
            ) from None
        for row in range(self.batch_size):
            epoch, window = divmod(first + row, self.windows_per_epoch)
            start = self._epoch(epoch)[window]
            windows[row] = self._tokens[start : start + self.context + 1]
        inputs, targets = windows[:, :-1], windows[:, 1:]
        return from_numpy(np.ascontiguousarray(inputs)), from_numpy(np.ascontiguousarray(targets))

    def _cut(self, epoch: int) -> np.ndarray:
        """The first tokens of the windows of an epoch, in its order."""
        count = self.windows_per_epoch
        room = self._tokens.size - count * self.context
        draws = _draws(self.seed, epoch, count + 1)
        order = np.argsort(draws[1:], kind="stable")
        return int(draws[0] % np.uint64(room)) + order * self.context


def _draws(seed: int, epoch: int, count: int) -> np.ndarray:
    """uint64 [count] that seed and epoch give, the same on every machine and with every NumPy: SplitMix64
    (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", 2014).
    """
    state = _mixed(_mixed(np.array([seed], np.uint64)) + np.uint64(epoch))
    return _mixed(state + np.arange(1, count + 1, dtype=np.uint64) * _GOLDEN_GAMMA)


def _mixed(words: np.ndarray) -> np.ndarray:
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words = (words ^ (words >> np.uint64(shift))) * np.uint64(factor)
    return words ^ (words >> np.uint64(31))
