"""GPT-2's byte-level BPE tokenizer."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from typing import Any

import numpy as np

from kael import _checks, _signatures
from kael._errors import Error, ErrorCode
from kael._handles import NotCopied, Owned
from kael._library import check_status, native

# Decoding this many ids takes microseconds: not worth giving the interpreter lock away.
_FEW_IDS = 256
# A first guess for the room that decoding needs; the library says when it is too small.
_BYTES_PER_ID = 16


class BpeTokenizer(NotCopied):
    """GPT-2's tokenizer, from its ``vocab.json`` and ``merges.txt``.

    Immutable: any number of threads may use one at the same time, also in a child made by ``fork``.
    """

    __module__ = "kael"

    def __init__(
        self, vocab_path: str | bytes | os.PathLike[Any], merges_path: str | bytes | os.PathLike[Any]
    ) -> None:
        vocab = _checks.path("vocab_path", vocab_path)
        merges = _checks.path("merges_path", merges_path)
        handle = ctypes.POINTER(_signatures.TokenizerHandle)()
        library = native()
        self._owned = Owned(handle, library.released.kael_tokenizer_free, "tokenizer")
        check_status(
            library.released.kael_tokenizer_load(vocab, len(vocab), merges, len(merges), ctypes.byref(handle))
        )
        size, end_of_text = ctypes.c_int64(), ctypes.c_int64()
        check_status(library.kept.kael_tokenizer_vocabulary_size(handle, ctypes.byref(size)))
        check_status(library.kept.kael_tokenizer_end_of_text(handle, ctypes.byref(end_of_text)))
        self._vocabulary_size = size.value
        self._end_of_text = None if end_of_text.value < 0 else end_of_text.value

    @classmethod
    def from_pretrained(cls, folder: str | bytes | os.PathLike[Any]) -> BpeTokenizer:
        """The tokenizer in ``folder``: its ``vocab.json`` and ``merges.txt``.

        Raises :class:`kael.Error` that names those of them which are missing.
        """
        path = _checks.folder("folder", folder)
        files = [os.path.join(path, name) for name in (b"vocab.json", b"merges.txt")]
        missing = [os.path.basename(file).decode() for file in files if not os.path.lexists(file)]
        if missing:
            raise Error(
                f"{os.fsdecode(path)} has no {' and no '.join(missing)}, expected a model's tokenizer",
                ErrorCode.NOT_FOUND,
            )
        return cls(*files)

    @property
    def vocabulary_size(self) -> int:
        """One more than the highest id."""
        return self._vocabulary_size

    @property
    def end_of_text(self) -> int | None:
        """The id of ``<|endoftext|>``, or None where the vocabulary has none."""
        return self._end_of_text

    def encode(self, text: str | bytes, allow_special: bool = False) -> list[int]:
        """The ids of ``text``: a str is taken as UTF-8, bytes as they are, valid UTF-8 or not.

        ``<|endoftext|>`` in the text is plain text unless ``allow_special``. Raises :class:`kael.Error` for a
        byte that the vocabulary lacks (it names the byte and its offset) and for a str with a lone surrogate.
        """
        data = _checks.text("text", text)
        special = _checks.flag("allow_special", allow_special)
        ids = np.empty(len(data), np.int64)
        count = ctypes.c_int64()
        check_status(
            native().released.kael_tokenizer_encode(
                self._owned.pointer(), data, len(data), special, _int64s(ids), len(data), ctypes.byref(count)
            )
        )
        encoded: list[int] = ids[: count.value].tolist()
        return encoded

    def decode(self, ids: Iterable[int]) -> bytes:
        """The bytes that ``ids`` stand for. A character may be split between tokens, so decode whole texts,
        or incrementally (``codecs.getincrementaldecoder("utf-8")``).

        Raises :class:`kael.Error` for an id outside the vocabulary.
        """
        array = _checks.token_ids("ids", ids)
        library = native()
        functions = library.kept if len(array) <= _FEW_IDS else library.released
        capacity = _BYTES_PER_ID * len(array)
        while True:
            buffer = ctypes.create_string_buffer(capacity)
            length = ctypes.c_int64()
            check_status(
                functions.kael_tokenizer_decode(
                    self._owned.pointer(), _int64s(array), len(array), buffer, capacity, ctypes.byref(length)
                )
            )
            if length.value <= capacity:
                return buffer.raw[: length.value]
            capacity = length.value

    def __repr__(self) -> str:
        return f"<kael.BpeTokenizer of {self._vocabulary_size} tokens>"


def _int64s(array: np.ndarray) -> Any:
    return array.ctypes.data_as(_signatures.Int64Pointer)
