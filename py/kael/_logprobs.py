"""Log probabilities of tokens, written by the library while it generates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kael import _checks, _signatures
from kael._errors import Error
from kael._handles import NotCopied

# The most that may be asked for beside each token.
MAX_TOP = 1000

_ENTRY = np.dtype([("token", np.int64), ("logprob", np.float64)])
_NONE = -1  # as the id of a token


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """What the model said of a token, given all before it."""

    token: int
    logprob: float  #: natural logarithm of the token's probability
    top: list[tuple[int, float]]  #: the most likely tokens and their log probabilities, in order


TokenLogprob.__module__ = "kael"


class Logprobs(NotCopied):
    """Room for the log probabilities of one generation at a time: give it to :meth:`kael.GPT.generate` or
    :meth:`kael.GPT.generate_into`.

    They are the model's own, of the softmax of its logits: biases, penalties, temperature and filters do not
    change them. An entry is there before its token is announced, so that another thread may read it once the
    token has come through a ring.
    """

    __module__ = "kael"

    def __init__(self, max_tokens: int, top: int = 0, prompt_tokens: int = 0) -> None:
        """Room for ``max_tokens`` new tokens, with the ``top`` most likely ones beside each; with
        ``prompt_tokens`` also for a prompt of so many, which must fit the model's context.
        """
        self.top = _checks.integer("top", top, 0, MAX_TOP)
        self.max_tokens = _checks.integer("max_tokens", max_tokens, 0, _checks.INT32_MAX)
        self.prompt_tokens = _checks.integer("prompt_tokens", prompt_tokens, 0, _checks.INT32_MAX)
        self._rows = np.empty((self.max_tokens, 1 + self.top), _ENTRY)
        self._prompt_rows = np.empty((max(self.prompt_tokens - 1, 0), 1 + self.top), _ENTRY)
        self._clear()

    def token(self, index: int) -> TokenLogprob:
        """Of the new token number ``index``. Raises :class:`kael.Error` when there is none yet."""
        return _entry("new token", self._rows, _checks.integer("index", index, 0, _checks.INT32_MAX))

    def prompt_token(self, index: int) -> TokenLogprob:
        """Of the prompt's token number ``index``, from 1 on: nothing comes before the first. Raises
        :class:`kael.Error` when there is none yet, or the prompt was not asked for.
        """
        place = _checks.integer("index", index, 1, _checks.INT32_MAX) - 1
        return _entry("token of the prompt", self._prompt_rows, place)

    def _write_to(self, options: Any, prompt_tokens: int, max_tokens: int) -> None:
        """Points a ``GenerateOptions`` at the room, which the caller keeps alive for as long."""
        if self.max_tokens < max_tokens:
            raise Error(f"the logprobs have room for {self.max_tokens} tokens, max_tokens is {max_tokens}")
        if self.prompt_tokens and self.prompt_tokens != prompt_tokens:
            raise Error(
                f"the logprobs are for a prompt of {self.prompt_tokens} tokens, this one has {prompt_tokens}"
            )
        self._clear()
        options.logprobs = _pointer(self._rows)
        if self.prompt_tokens:
            options.prompt_logprobs = _pointer(self._prompt_rows)
        options.top_logprobs = self.top

    def _clear(self) -> None:
        for rows in (self._rows, self._prompt_rows):
            rows["token"] = _NONE


def _pointer(rows: np.ndarray) -> Any:
    return rows.ctypes.data_as(_signatures.TokenLogprobPointer)


def _entry(what: str, rows: np.ndarray, place: int) -> TokenLogprob:
    if place >= len(rows) or rows[place, 0]["token"] == _NONE:
        raise Error(f"there are no log probabilities of {what} {place} yet, or no room for them")
    (token, logprob), *top = rows[place].tolist()
    return TokenLogprob(token, logprob, [entry for entry in top if entry[0] != _NONE])
