"""What the machine can do, to hold speeds against."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from pathlib import Path

from kael import _signatures
from kael._library import check_status, native


def measure_read_bandwidth(threads: int, repeats: int) -> float:
    """Bytes per second that ``threads`` threads read from memory, the best of ``repeats`` passes."""
    result = ctypes.c_double()
    check_status(native().released.kael_measure_read_bandwidth(threads, repeats, ctypes.byref(result)))
    return result.value


def measure_multiply_add(dtype: str, threads: int, repeats: int) -> float:
    """Operations per second in registers of the multiply-adds that products with weights of ``dtype`` are
    made of, the best of ``repeats``.
    """
    format_ = _signatures.WEIGHT_FORMATS.index(dtype)
    result = ctypes.c_double()
    check_status(native().released.kael_measure_multiply_add(format_, threads, repeats, ctypes.byref(result)))
    return result.value


def processor_name() -> str:
    """What the processor calls itself."""
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def processor_count() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def peak_resident_bytes() -> int | None:
    """The most memory that this process ever had in use, files that it maps included."""
    try:
        # Of this program alone: what getrusage reports begins at the size of the process that started it.
        for line in Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    try:
        import resource
    except ImportError:
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
