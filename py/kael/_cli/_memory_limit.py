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
    groups = _free_in_control_groups(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))
    return data_and_stack + int(min(free, groups))


def _free_in_control_groups(own: Path, root: Path) -> float:
    """The bytes that a container or a unit of systemd leaves its process: the least of its control group and
    those around it (version 2, cgroups(7)). ``own`` names the group, ``root`` is where groups are mounted.
    """
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return float("inf")
    path = next((line.removeprefix("0::/") for line in lines if line.startswith("0::/")), "")
    groups = [root / path, *(root / path).parents]
    return min(map(_free_in_control_group, groups[: groups.index(root) + 1]))


def _free_in_control_group(group: Path) -> float:
    """Infinity where the group has no limit, or tells of none."""
    try:
        limit = int((group / "memory.max").read_text())  # or the word max
        used = int((group / "memory.current").read_text())
        parts = dict(line.split() for line in (group / "memory.stat").read_text().splitlines())
        files = int(parts["active_file"]) + int(parts["inactive_file"])  # which it gives back
    except (OSError, LookupError, ValueError):
        return float("inf")
    return max(limit - used + files, 0)
