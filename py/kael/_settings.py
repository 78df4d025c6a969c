"""Settings of the process and facts about the library."""

from __future__ import annotations

import ctypes
from typing import NamedTuple

from kael import _checks, _signatures
from kael._errors import ErrorCode
from kael._library import check_status, last_error, native, static_text

# As in kael.h.
MAX_THREADS = 256


def set_num_threads(count: int) -> None:
    """Threads for one call into the library, 1 to 256. Results do not depend on it. Any thread, also while
    others compute: the product or token that they are at keeps its count, and what comes next has the new
    one.
    """
    number = _checks.integer("count", count, 1, MAX_THREADS)
    check_status(native().released.kael_set_num_threads(number))


def get_num_threads() -> int:
    """Threads for one call: what :func:`set_num_threads` set, else ``KAEL_NUM_THREADS``, else the processors
    that the process may use.
    """
    count = int(native().released.kael_get_num_threads())
    if count < 1:
        raise last_error(ErrorCode.INVALID_ARGUMENT)
    return count


def set_float32_matmul_precision(precision: str) -> None:
    """What float32 matrices are multiplied in, in the whole process: "highest" is float32; "medium" is
    bfloat16 with float32 sums, where the processor has instructions for it and the matrices are large, which
    trains about one and a half times as fast. The tensors stay float32. Results of "medium" differ between
    processors, not between numbers of threads. Any thread.
    """
    name = _checks.choice("precision", precision, _signatures.MATMUL_PRECISIONS)
    number = _signatures.MATMUL_PRECISIONS.index(name)
    check_status(native().released.kael_set_float32_matmul_precision(number))


def get_float32_matmul_precision() -> str:
    """What :func:`set_float32_matmul_precision` set; "highest" at first."""
    return _signatures.MATMUL_PRECISIONS[native().released.kael_get_float32_matmul_precision()]


def manual_seed(seed: int) -> None:
    """Restarts the stream that random weights and generations without a seed draw from. Any thread."""
    native().released.kael_manual_seed(_checks.integer("seed", seed, 0, _checks.UINT64_MAX))


class RandomState(NamedTuple):
    """Where the stream of :func:`manual_seed` is: its seed, and how many 64-bit words were drawn since."""

    seed: int
    position: int


def random_state() -> RandomState:
    """Where the stream of :func:`manual_seed` is, for :func:`set_random_state`. Any thread."""
    seed, position = ctypes.c_uint64(), ctypes.c_uint64()
    check_status(native().released.kael_random_state(ctypes.byref(seed), ctypes.byref(position)))
    return RandomState(seed.value, position.value)


def set_random_state(state: tuple[int, int]) -> None:
    """Goes on drawing where :func:`random_state` was taken. Any thread."""
    if not isinstance(state, tuple) or len(state) != 2:
        raise TypeError(f"state must be what random_state() gives, (seed, position), not {state!r}")
    seed = _checks.integer("the seed of state", state[0], 0, _checks.UINT64_MAX)
    position = _checks.integer("the position of state", state[1], 0, _checks.UINT64_MAX)
    native().released.kael_set_random_state(seed, position)


def caching_allocator_enabled() -> bool:
    """Whether freed memory is kept for reuse; ``KAEL_NO_CACHING_ALLOCATOR`` in the environment turns that
    off.
    """
    return bool(native().kept.kael_caching_allocator_enabled())


def build_info() -> str:
    """One line about the library: instruction set in use, compiler, kind of build."""
    return static_text(native().kept.kael_build_info())


def library_version() -> str:
    """The version that the library was built as."""
    return static_text(native().kept.kael_version())
