"""Text files as token ids."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from kael import _checks
from kael._errors import Error, ErrorCode
from kael._tokenizer import BpeTokenizer

Path = str | bytes | os.PathLike[Any]

# Characters that are encoded in one go: enough for speed, few enough to tell how far it is.
_PIECE = 1 << 18


def read_text(path: Path) -> str:
    """A text file, which must be UTF-8 and not empty. A pipe is refused: who trains reads a text again, for
    the tokenizer and when the training is resumed.
    """
    name = os.fsdecode(_checks.path("path", path))
    try:
        mode = os.stat(name).st_mode
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise Error(f"{name} is a pipe or a device, expected a file, which can be read again")
        with open(name, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        raise Error(f"there is no file {name}", ErrorCode.NOT_FOUND) from None
    except ValueError as error:
        raise Error(f"{name} cannot be a path: {error}") from None
    except OSError as error:
        raise Error(f"cannot read {name}: {error.strerror or error}", ErrorCode.IO_ERROR) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Error(
            f"{name} is no UTF-8 text: byte {error.start} is 0x{content[error.start]:02x}; convert it, as "
            "with iconv -t UTF-8",
            ErrorCode.INVALID_FILE,
        ) from None
    if not text.strip():
        raise Error(f"{name} holds no text", ErrorCode.INVALID_FILE)
    return text


def encode_files(
    tokenizer: BpeTokenizer, paths: Iterable[Path], progress: Callable[[float], None] | None = None
) -> np.ndarray:
    """The token ids [N] of text files, int32, each file ended by ``<|endoftext|>`` where the vocabulary has
    it. ``progress`` is called with the share that is done.
    """
    texts = [(path, read_text(path)) for path in paths]
    total, done = sum(len(text) for _, text in texts), 0
    parts: list[np.ndarray] = []
    for path, text in texts:
        for piece in _pieces(text):
            parts.append(_encoded(tokenizer, path, text, piece))
            done += len(piece)
            if progress is not None:
                progress(done / total)
        if tokenizer.end_of_text is not None:
            parts.append(np.array([tokenizer.end_of_text], np.int32))
    return np.concatenate(parts) if parts else np.empty(0, np.int32)


def _encoded(tokenizer: BpeTokenizer, path: Path, text: str, piece: str) -> np.ndarray:
    try:
        return np.array(tokenizer.encode(piece), np.int32)
    except Error as of_piece:
        error = of_piece
    try:
        tokenizer.encode(text)  # fails as well, and tells the place in the whole text
    except Error as of_text:
        error = of_text
    raise Error(f"{os.fsdecode(path)} cannot be encoded: {error.message}", error.code)


def split_tokens(tokens: np.ndarray, validation_share: float) -> tuple[np.ndarray, np.ndarray]:
    """The beginning of a text for training, and the rest, ``validation_share`` of it, for validation."""
    share = float(_checks.number("validation_share", validation_share))
    if not 0 < share < 1:
        raise Error(f"validation_share is {share:g}, expected a number between 0 and 1")
    first = round(tokens.size * (1 - share))
    return tokens[:first], tokens[first:]


def _pieces(text: str) -> Iterator[str]:
    """The text in pieces whose ids are, one after the other, those of the whole: a piece ends with a line
    break that stands alone, which is a token's end whatever comes before and after.
    """
    start = 0
    while len(text) - start > _PIECE:
        end = _lone_line_break(text, start + _PIECE)
        yield text[start:end]
        start = end
    yield text[start:]


def _lone_line_break(text: str, place: int) -> int:
    """The place behind the first one from ``place`` on, or the end of the text."""
    while (place := text.find("\n", place)) >= 0:
        before, after = text[place - 1 : place], text[place + 1 : place + 2]
        if before.isprintable() and not before.isspace() and after.isprintable() and not after.isspace():
            return place + 1
        place += 1
    return len(text)
