"""What the processors do, by Linux's /proc."""

from __future__ import annotations

import os
import time
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_LOOK_SECONDS = 0.1
QUIET = 0.1  # processors that others may use


def busy_seconds() -> float:
    """What all processors together have worked since the machine started, also for others on its host."""
    user, nice, system, _idle, _wait, interrupt, soft_interrupt, stolen = map(
        int, Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
    )
    return (user + nice + system + interrupt + soft_interrupt + stolen) / _TICKS


def process_seconds(process: int) -> float:
    """What a process has worked, with all its threads."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def peak_resident_bytes(process: int) -> int:
    """The most memory that a process ever had in use, files that it maps included."""
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    raise ProcessLookupError(f"process {process} has ended")


def falls_asleep(process: int, seconds: float) -> bool:
    """Waits until no thread of a process runs, and says whether that came within so many seconds."""
    deadline = time.monotonic() + seconds
    while any(_runs(thread) for thread in Path(f"/proc/{process}/task").iterdir()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


def _runs(thread: Path) -> bool:
    try:
        return (thread / "stat").read_text().rpartition(")")[2].split()[0] == "R"
    except OSError:  # it has ended
        return False


def wait_for_quiet(seconds: float) -> None:
    """Waits until others leave the processors alone, or for so long."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        before = busy_seconds()
        time.sleep(_LOOK_SECONDS)
        if busy_seconds() - before <= QUIET * _LOOK_SECONDS:
            return
