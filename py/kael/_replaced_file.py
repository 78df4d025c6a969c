"""Files that are there whole or not at all: written beside their name and renamed over it."""

from __future__ import annotations

import contextlib
import os
import re
import tempfile
from pathlib import Path

from kael._errors import Error, ErrorCode

# Beside the file, with the id of the process that writes it: the names that the library takes as well.
_TEMPORARY = re.compile(r"\.kael-(\d{1,9})-\w+\.tmp")


def replace_file(path: str, content: bytes) -> None:
    """Writes a file beside ``path`` and renames it over it."""
    try:
        with tempfile.NamedTemporaryFile(
            dir=os.path.dirname(path) or ".", prefix=f".kael-{os.getpid()}-", suffix=".tmp", delete=False
        ) as file:
            try:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
                os.fchmod(file.fileno(), _mode_of_new_files())
                os.replace(file.name, path)
            except BaseException:
                os.unlink(file.name)
                raise
    except OSError as error:
        raise Error(f"cannot write {path}: {error.strerror}", ErrorCode.IO_ERROR) from None


def remove_leftovers(folder: Path) -> None:
    """Removes what processes of this machine were writing in ``folder`` when they were killed."""
    for path in folder.glob(".kael-*.tmp"):
        match = _TEMPORARY.fullmatch(path.name)
        if match is not None and not _is_running(int(match[1])):
            with contextlib.suppress(OSError):  # it takes space, and does no other harm
                path.unlink()


def _is_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is another user's
        return True
    return True


def _mode_of_new_files() -> int:
    mask = os.umask(0o077)
    os.umask(mask)
    return 0o666 & ~mask
