"""The process of an engine, seen from the one that measures."""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from typing import Any

from peers import machine
from peers.interface import Answer
from peers.launching import EngineError, environment, failure


class EngineProcess:
    """An engine that was started and may have to load yet."""

    def __init__(self, command: list[str], threads: int) -> None:
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115  (closed by end)
        self._process = subprocess.Popen(
            command,
            env=environment(threads),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )

    def wait_until_loaded(self) -> float:
        """The seconds from the beginning of loading, when its library was imported, to its first token."""
        return float(self._answer()["load_seconds"])

    def generate(self, prompt: list[int], count: int) -> Answer:
        """What its engine generates."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # there is no answer then, which says why
            print(json.dumps({"prompt": prompt, "count": count}), file=self._process.stdin, flush=True)
        return Answer(**self._answer())

    def _answer(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            code = self._process.wait()
            self._errors.seek(0)
            raise EngineError(failure(code, self._errors.read()))
        answer: dict[str, Any] = json.loads(line)
        return answer

    @property
    def busy_seconds(self) -> float:
        return machine.process_seconds(self._process.pid)

    @property
    def peak_resident_bytes(self) -> int:
        return machine.peak_resident_bytes(self._process.pid)

    def falls_asleep(self, seconds: float) -> bool:
        """Waits until none of its threads runs, and says whether that came within so many seconds."""
        return machine.falls_asleep(self._process.pid, seconds)

    def end(self) -> None:
        """Ends the process, whatever it does."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()
