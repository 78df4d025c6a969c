"""MNIST's images and labels, from IDX files."""

from __future__ import annotations

import gzip
import os
import zlib
from typing import Any

from kael import _checks
from kael._errors import Error, ErrorCode
from kael._library import native
from kael._tensor import Tensor

Path = str | bytes | os.PathLike[Any]

# More than any data set of this kind, and less than would exhaust a machine: a file may be of any size, and
# a packed one unpack to anything.
_MOST_BYTES = 4 * 2**30


def read_idx_images(path: Path) -> Tensor:
    """uint8 [images, rows, columns] from an IDX file of images, packed by gzip or not.

    Raises :class:`kael.Error` that names the file for another magic number, and for more or fewer bytes than
    its sizes say.
    """
    return _read(native().released.kael_idx_images, path)


def read_idx_labels(path: Path) -> Tensor:
    """uint8 [labels] from an IDX file of labels, packed by gzip or not. Errors as of
    :func:`read_idx_images`.
    """
    return _read(native().released.kael_idx_labels, path)


def _read(parse: Any, path: Path) -> Tensor:
    name = _checks.path("path", path)
    content = _content(os.fsdecode(name))
    return Tensor._filled_by(lambda out: parse(content, len(content), name, len(name), out))


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            with gzip.open(file) if packed else file as unpacked:
                content = unpacked.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise Error(f"there is no file {path}", ErrorCode.NOT_FOUND) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise Error(f"{path} is a damaged gzip file: {error}", ErrorCode.INVALID_FILE) from None
    except OSError as error:
        raise Error(f"cannot read {path}: {error.strerror or error}", ErrorCode.IO_ERROR) from None
    if len(content) > _MOST_BYTES:
        does = "unpacks to" if packed else "has"
        raise Error(f"{path} {does} more than {_MOST_BYTES} bytes", ErrorCode.INVALID_FILE)
    return content
