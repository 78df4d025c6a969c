"""Folders that are made for what is then written into them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from kael._errors import Error, ErrorCode


@contextlib.contextmanager
def made_folder(path: str | Path) -> Iterator[None]:
    """Makes ``path``, and the folders above it, where they are missing. Those that were made are removed when
    the body fails, unless there is something in them by then.
    """
    missing = [folder for folder in (Path(path), *Path(path).parents) if not os.path.lexists(folder)]
    try:
        try:
            os.makedirs(path, exist_ok=True)
        except OSError as error:
            raise Error(f"cannot make the folder {path}: {error.strerror}", ErrorCode.IO_ERROR) from None
        yield
    except BaseException:
        for folder in missing:
            with contextlib.suppress(OSError):  # it was not made, or is not empty
                folder.rmdir()
        raise
