"""The program's log: lines on standard error, written by a thread of their own.

Standard error may be a pipe that nobody reads. Written by the loop, the line that fills it would stop the
server, and every request with it.
"""

from __future__ import annotations

import json
import logging
import os
import queue
import re
import select
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any

_FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

_PLACEHOLDER = re.compile(r"%[-+#\d.]*[a-z]")  # of a logging call's arguments in its message

# Lines that wait for standard error to take them. Those beyond are dropped and counted.
WAITING_LINES = 1000

# What the end of the program grants the lines that still wait.
CLOSE_SECONDS = 1.0


def fields(**values: Any) -> dict[str, Any]:
    """The argument ``extra`` of a logging call whose line of JSON has these values one by one."""
    return {"fields": values}


class JsonFormatter(logging.Formatter):
    """A record as a line of JSON: time, level, logger, message, the values of ``fields``, and a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def leave_out_requests(record: logging.LogRecord) -> bool:
    """A filter that takes what clients sent out of Tornado's own lines, which quote bad headers."""
    if record.name == "tornado.general":
        record.msg, record.args = _PLACEHOLDER.sub("...", str(record.msg)), ()
    return True


@contextmanager
def to_stderr(format_name: str) -> Iterator[None]:
    """Inside, this process logs to standard error, if it has one, as ``text`` or as ``json``."""
    if sys.stderr is None:  # it was closed from the start: its number may be a connection's by now
        yield
        return
    root = logging.getLogger()
    level = root.level
    handler = LineWriter(sys.stderr.fileno())
    handler.setFormatter(JsonFormatter() if format_name == "json" else logging.Formatter(_FORMAT))
    handler.addFilter(leave_out_requests)
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    try:
        yield
    finally:
        root.setLevel(level)
        root.removeHandler(handler)
        handler.close()


class LineWriter(logging.Handler):
    """Writes each record as a line to a descriptor, and never makes who logs wait for it."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        # A queue whose put may come in the middle of another: what is collected then may log, too.
        self._lines: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._dropped = 0
        # A daemon: while nobody reads, it never ends.
        self._thread = threading.Thread(target=self._write_lines, name="kael-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        if self._lines.qsize() >= WAITING_LINES:
            self._dropped += 1
            return
        try:
            line = self._line(record)
        except Exception:
            self.handleError(record)
            return
        self._report_dropped()
        self._lines.put(line)

    def _own_lock(self) -> AbstractContextManager[Any]:
        """The one that is held around ``emit``."""
        assert self.lock is not None
        return self.lock

    def _line(self, record: logging.LogRecord) -> bytes:
        return f"{self.format(record)}\n".encode(errors="backslashreplace")

    def _report_dropped(self) -> None:
        if self._dropped:
            text = "%d lines are missing here: standard error did not take them"
            record = logging.LogRecord(__name__, logging.WARNING, __file__, 0, text, (self._dropped,), None)
            self._dropped = 0
            self._lines.put(self._line(record))

    def _write_lines(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._write(line)
            except OSError:  # a full disk, a reader who has left: no reason not to serve
                with self._own_lock():
                    self._dropped += 1

    def _write(self, line: bytes) -> None:
        # Not through sys.stderr: the interpreter cannot end while a thread waits in its buffer.
        while line:
            try:
                line = line[os.write(self._descriptor, line) :]
            except BlockingIOError:  # whoever shares the descriptor may have wanted that
                select.select((), (self._descriptor,), ())

    def close(self) -> None:
        """Waits for the lines that are left, but not for long."""
        super().close()
        if self._thread.is_alive():
            with self._own_lock():
                self._report_dropped()
            self._lines.put(None)
            self._thread.join(CLOSE_SECONDS)
