"""Servers for the tests: in this process over fakes, and as a process of its own over a small checkpoint."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import hypothesis
import pytest

# The machine may be busy.
hypothesis.settings.register_profile(
    "kael",
    deadline=None,
    database=None,
    derandomize=not os.environ.get("KAEL_RANDOM_TESTS"),
    max_examples=60,
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("kael")

# Whoever starts the tests in the background may have SIGINT ignored, which every process that a test starts
# would inherit, and no shell can undo.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

ROOT = Path(__file__).resolve().parents[2]

_library = {"darwin": "libkael.dylib"}.get(sys.platform, "libkael.so")
os.environ.setdefault("KAEL_LIBRARY", str(ROOT / "build" / "cpu" / _library))

from server_fakes import Bytes, Echo  # noqa: E402
from server_live import Server  # noqa: E402

from server import Generator, Settings  # noqa: E402  (after the library is chosen)


@pytest.fixture
def serve():
    """Starts a server: ``serve(model, tokenizer=, context=)``; all else are its Settings."""
    servers = []

    def start(model, tokenizer=None, context=1024, **settings):
        generator = Generator(model, tokenizer or Bytes(), context=context)
        server = Server(generator, Settings(**settings))
        servers.append(server)
        return server

    yield start
    for server in servers:
        server.close()
        server.close_clients()


@pytest.fixture
def server(serve):
    """A server whose model repeats the prompt, with a context of 64."""
    return serve(Echo(), context=64)
