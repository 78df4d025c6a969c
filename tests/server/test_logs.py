"""The log's thread: what it writes, what it drops, what it waits for."""

from __future__ import annotations

import logging
import os
import time

import pytest
from server_live import wait_for

from server import logs


@pytest.fixture
def pipe():
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def record(text):
    return logging.LogRecord("test", logging.INFO, __file__, 0, text, None, None)


def writer(descriptor):
    handler = logs.LineWriter(descriptor)
    handler.setFormatter(logging.Formatter("%(message)s"))
    return handler


def test_lines_are_written_in_order_before_close_returns(pipe):
    reading, writing = pipe
    handler = writer(writing)
    for text in ("one", "two", "thr\udceee"):
        handler.handle(record(text))
    handler.close()
    assert os.read(reading, 1000) == b"one\ntwo\nthr\\udceee\n"


def test_tornados_own_lines_lose_what_clients_sent():
    lines = {
        ("tornado.general", "Malformed HTTP message from %s: %s", ("1.2.3.4", "secret")): (
            "Malformed HTTP message from ...: ..."
        ),
        ("tornado.general", "%d of %-5.2f", (1, 2.0)): "... of ...",
        ("tornado.general", "100 % sure", None): "100 % sure",
        ("server.handlers", "%s is free", ("the slot",)): "the slot is free",
    }
    for (name, text, arguments), message in lines.items():
        made = logging.LogRecord(name, logging.INFO, __file__, 0, text, arguments, None)
        assert logs.leave_out_requests(made)
        assert made.getMessage() == message


@pytest.mark.parametrize("blocking", [True, False])
def test_what_nobody_reads_is_dropped_and_counted_where_it_is_missing(pipe, blocking, monkeypatch):
    monkeypatch.setattr(logs, "WAITING_LINES", 3)
    reading, writing = pipe
    os.set_blocking(writing, False)
    filling = b"".join(iter(lambda: fill(writing), b""))
    os.set_blocking(writing, blocking)
    handler = writer(writing)
    for number in range(10):
        handler.handle(record(f"line {number}"))
    read = b""
    while len(read) < len(filling) or not handler._lines.empty():
        read += os.read(reading, 1 << 20)
    handler.handle(record("read again"))
    handler.close()
    lines = (read + os.read(reading, 1 << 20))[len(filling) :].decode().splitlines()
    kept = len(lines) - 2
    assert kept in (3, 4)  # the thread may hold one
    assert lines[:kept] == [f"line {number}" for number in range(kept)]
    assert lines[kept].startswith(f"{10 - kept} lines are missing here")
    assert lines[-1] == "read again"


def fill(descriptor):
    """What the pipe still took; nothing once it is full."""
    try:
        return b"." * os.write(descriptor, b"." * 1000)
    except BlockingIOError:
        return b""


def test_closing_does_not_wait_for_a_reader_that_never_comes(pipe, monkeypatch):
    monkeypatch.setattr(logs, "CLOSE_SECONDS", 0.01)
    reading, writing = pipe
    os.set_blocking(writing, False)
    while fill(writing):
        pass
    os.set_blocking(writing, True)
    handler = writer(writing)
    handler.handle(record("unread"))
    started = time.monotonic()
    handler.close()
    assert time.monotonic() - started < 10
    os.read(reading, 1 << 20)  # lets the thread end


def test_a_reader_that_has_left_is_no_failure():
    reading, writing = os.pipe()
    os.close(reading)
    handler = writer(writing)
    handler.handle(record("nobody"))
    handler.close()
    os.close(writing)
    assert not handler._thread.is_alive()


def test_a_line_that_could_not_be_written_is_counted_where_it_is_missing(pipe):
    reading, writing = pipe
    abandoned, descriptor = os.pipe()
    os.close(abandoned)
    handler = writer(descriptor)
    handler.handle(record("lost"))
    wait_for(lambda: handler._dropped == 1)
    os.dup2(writing, descriptor)
    handler.handle(record("found"))
    handler.close()
    os.close(descriptor)
    missing, found = os.read(reading, 1000).decode().splitlines()
    assert missing.startswith("1 lines are missing here")
    assert found == "found"


def test_what_is_missing_at_the_end_is_told_too(pipe, monkeypatch):
    monkeypatch.setattr(logs, "WAITING_LINES", 0)
    reading, writing = pipe
    handler = writer(writing)
    handler.handle(record("lost"))
    handler.close()
    (missing,) = os.read(reading, 1000).decode().splitlines()
    assert missing.startswith("1 lines are missing here")
