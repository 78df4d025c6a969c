"""What the runtime of a sanitizer, which a process is given before the library, makes of some tests."""

import os

import pytest

_preloaded = os.environ.get("LD_PRELOAD", "")

is_there = "asan" in _preloaded or "tsan" in _preloaded

measures_memory = pytest.mark.skipif(
    is_there,
    reason="a sanitizer keeps memory of its own beside that which the test measures or limits",
)
starts_no_thread = pytest.mark.skipif(
    "tsan" in _preloaded, reason="ThreadSanitizer itself ends a process that can start no thread"
)


def environment_of_others() -> dict[str, str]:
    """For programs that do not load the library: without the runtime, which would look for leaks in them."""
    return {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
