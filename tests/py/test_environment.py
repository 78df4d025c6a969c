"""Environment variables that the library reads, each in a process of its own, since they are read once."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import sanitizer

import kael

PACKAGES = str(Path(kael.__file__).parents[1])


def run(script: str, **variables: str) -> str:
    """The output of a Python process that runs `script` after `import kael`."""
    done = subprocess.run(
        [sys.executable, "-c", "import kael\n" + script],
        env={**os.environ, "PYTHONPATH": PACKAGES, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_the_number_of_threads_comes_from_the_environment():
    assert run("print(kael.get_num_threads())", KAEL_NUM_THREADS="3") == "3"


def test_the_number_of_threads_is_otherwise_that_of_the_usable_processors():
    processors = min(len(os.sched_getaffinity(0)), 256)
    assert run("print(kael.get_num_threads())", KAEL_NUM_THREADS="") == str(processors)
    one = "import os; os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\n"
    assert run(one + "print(kael.get_num_threads())", KAEL_NUM_THREADS="") == "1"


@pytest.mark.parametrize("value", ["0", "257", "-1", "two", "2x", " 2"])
def test_a_bad_number_of_threads_is_an_error_until_one_is_set(value):
    script = """
for _ in range(2):
    try:
        kael.get_num_threads()
    except kael.Error as error:
        print(error.message)
kael.set_num_threads(2)
print(kael.get_num_threads())
"""
    message = f'the environment variable KAEL_NUM_THREADS is "{value}", expected a whole number from 1 to 256'
    assert run(script, KAEL_NUM_THREADS=value).splitlines() == [message, message, "2"]


def test_any_value_turns_the_caching_allocator_off():
    script = "print(kael.caching_allocator_enabled())"
    assert run(script) == str(not sanitizer.is_there)  # whose builds leave it out
    for value in ("1", "0", ""):
        assert run(script, KAEL_NO_CACHING_ALLOCATOR=value) == "False"


@pytest.mark.parametrize("count", [0, -1, 257, 2**40])
def test_a_number_of_threads_out_of_range_says_the_range(count):
    with pytest.raises(kael.Error, match=f"count is {count}, expected 1 to 256"):
        kael.set_num_threads(count)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="the system does not say what is loaded")
def test_threads_come_from_no_openmp_that_thread_sanitizer_cannot_see():  # KB077
    loaded = run(
        "kael.set_num_threads(3); kael.ones(300, 300).matmul(kael.ones(300, 300));"
        "print(open('/proc/self/maps').read())"
    )
    assert "libkael" in loaded
    names = {line.rpartition("/")[2] for line in loaded.splitlines()}
    assert not [name for name in names if name.startswith(("libgomp", "libomp", "libiomp"))]
