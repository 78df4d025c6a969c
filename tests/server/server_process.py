"""The server as a process of its own, as a user starts it."""

from __future__ import annotations

import contextlib
import os
import queue
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from server_live import SECONDS, Client

ROOT = Path(__file__).resolve().parents[2]

# Starts the server around a model that is not the library's own.
AROUND_A_FAKE = """
import sys
import server.command, server.serve
from server import Generator, create_app
from server.__main__ import main
from server_fakes import {model}, {tokenizer}
server.serve.SHUTDOWN_SECONDS = {seconds}
server.command.load_app = lambda *given: create_app(Generator({model}(), {tokenizer}()), given[2])
sys.exit(main(["--data", ".", "--port", "0"]))
"""


def environment(paths=(ROOT, ROOT / "py", ROOT / "tests" / "server")):
    return {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths))}


def run(*arguments, program=("-m", "server")):
    """Runs `python -m server`, or another program of Python, to its end."""
    return subprocess.run(
        [sys.executable, *program, *map(str, arguments)],
        env=environment(),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=5 * SECONDS,
    )


class Process(Client):
    """A server that is ready, until it is ended by a signal, or else killed at the end of the with block."""

    def __init__(self, *arguments):
        self._process = subprocess.Popen(
            [sys.executable, *map(str, arguments)],
            env=environment(),
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._lines = queue.Queue()
        self._errors = []
        self._readers = [
            threading.Thread(target=self._read, args=(self._process.stdout, self._lines.put)),
            threading.Thread(target=self._read, args=(self._process.stderr, self._errors.append)),
        ]
        for reader in self._readers:
            reader.start()
        try:
            self.announcement = self._lines.get(timeout=2 * SECONDS)
        except queue.Empty:
            self.kill()
            raise AssertionError(f"the server did not start: {self.stderr}") from None
        super().__init__(int(re.search(r"https?://[^ ]*:(\d+)", self.announcement)[1]))

    @staticmethod
    def _read(stream, put):
        with stream:
            for line in stream:
                put(line)

    @property
    def stderr(self):
        return "".join(self._errors)

    @property
    def pid(self):
        return self._process.pid

    def signal(self, number=signal.SIGTERM):
        self._process.send_signal(number)

    def wait(self, seconds=2 * SECONDS):
        """The exit code."""
        code = self._process.wait(seconds)
        for reader in self._readers:
            reader.join(SECONDS)
        return code

    def wait_for_stderr(self, text):
        deadline = time.monotonic() + SECONDS
        while text not in self.stderr:
            assert time.monotonic() < deadline, self.stderr
            time.sleep(0.005)

    def kill(self):
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close_clients()
        self.kill()


def serve(*arguments):
    """`python -m server` on a free port."""
    return Process("-m", "server", "--port", 0, *arguments)


def serve_fake(model, shutdown_seconds=30, tokenizer="Bytes"):
    script = AROUND_A_FAKE.format(model=model, tokenizer=tokenizer, seconds=shutdown_seconds)
    return Process("-c", script)
