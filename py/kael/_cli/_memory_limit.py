"""Memory that is not there is refused when it is asked for. Linux promises more than it has and then kills
the process, which could tell nobody what to change.
"""

from __future__ import annotations

import mmap
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Kilobytes that a process can still get.
_FREE = ("MemAvailable", "SwapFree")


@contextmanager
def limited_to_what_is_free() -> Iterator[None]:
    """Inside, the process has the memory that it has now and what is free; all where no one can tell."""
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = _most_bytes()
    if wanted is not None and (soft == resource.RLIM_INFINITY or wanted < soft):
        resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _most_bytes() -> int | None:
    try:
        known = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        free = sum(int(known[name].split()[0]) for name in _FREE) * 1024
        data_and_stack = int(Path("/proc/self/statm").read_text().split()[5]) * mmap.PAGESIZE
    except (OSError, LookupError, ValueError):
        return None
    return data_and_stack + free
