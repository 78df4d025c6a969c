"""How the processes of the engines are started, and what they say when they fail."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import kael
from peers.catalogue import KAEL, Entry

_PATHS = [str(Path(__file__).resolve().parents[1]), str(Path(kael.__file__).resolve().parents[1])]

# Settings of the libraries' threads that may be in the environment for other programs.
_THREAD_SETTINGS = ("OMP_", "GOMP_", "KMP_", "MKL_", "OPENBLAS_")


class EngineError(Exception):
    """An engine does not run; says why."""


class Launcher:
    """Starts modules of this package: those of kael in this interpreter, those of peers in theirs."""

    def __init__(self, peers: Path) -> None:
        self._peers = peers

    def command(self, engine: str, module: str, *arguments: object) -> list[str]:
        python = sys.executable if engine == KAEL else str(self._peers)
        return [python, "-P", "-m", f"peers.{module}", *map(str, arguments)]

    def run(self, engine: str, module: str, *arguments: object) -> str:
        """What a module printed."""
        command = self.command(engine, module, *arguments)
        try:
            done = subprocess.run(command, env=environment(1), capture_output=True, text=True)
        except OSError as error:
            raise EngineError(f"{command[0]} cannot be started: {error.strerror}") from None
        if done.returncode != 0:
            raise EngineError(failure(done.returncode, done.stderr))
        return done.stdout

    def versions(self, engine: str, entry: Entry) -> dict[str, str | None]:
        """Of the packages that an engine needs: None where one is missing."""
        wanted = [f"{module}={package}" for module, package in entry.packages.items()]
        versions: dict[str, str | None] = json.loads(self.run(engine, "installed", *wanted))
        return versions

    def install(self, packages: Iterable[str]) -> str:
        """The command that installs packages of peers."""
        return f"{self._peers} -m pip install {' '.join(packages)}"


def environment(threads: int) -> dict[str, str]:
    """Of a process that computes with so many threads."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_THREAD_SETTINGS)}
    return {
        **kept,
        "PYTHONPATH": os.pathsep.join(_PATHS),
        "OMP_NUM_THREADS": str(threads),  # for what a library computes outside its own pool
        "HF_HUB_OFFLINE": "1",
    }


def failure(code: int, errors: str) -> str:
    """What to say of a process that failed: the last line is the message of Python's errors."""
    last = (errors.strip().splitlines() or ["it said nothing"])[-1]
    return f"its process ended with {code}: {last}"
