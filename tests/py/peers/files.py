"""The model in the form that each engine reads."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from peers.catalogue import Entry
from peers.launching import EngineError, Launcher


class Files:
    """What the engines read in place of the checkpoint: made once for a checkpoint and version, and kept."""

    def __init__(self, source: Path, folder: Path, launcher: Launcher) -> None:
        weights = (source / "model.safetensors").resolve()
        about = weights.stat()
        key = f"{weights} {about.st_size} {about.st_mtime_ns}".encode()
        self.source = source
        self._folder = folder / hashlib.sha256(key).hexdigest()[:16]
        self._launcher = launcher

    def made(self, engine: str, entry: Entry, version: str, dtype: str) -> Path:
        """The folder of the files of one engine and dtype."""
        folder = self._folder / f"{engine}-{version}" / dtype
        if not folder.exists():
            unfinished = folder.with_name(f"{dtype}.part")
            shutil.rmtree(unfinished, ignore_errors=True)
            unfinished.mkdir(parents=True)
            try:
                self._launcher.run(engine, "worker", "convert", entry.module, self.source, unfinished, dtype)
            except EngineError as error:
                raise EngineError(f"no files for it: {error}") from None
            unfinished.rename(folder)
        return folder
