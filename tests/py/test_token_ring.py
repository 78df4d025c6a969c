"""kael.TokenRing: two owners, one descriptor."""

from __future__ import annotations

import gc
import os
import select
import sys
import threading

import pytest

import kael
from kael import _library

push = _library.native().kept.kael_token_ring_push


def readable(ring, seconds=0.0):
    return bool(select.select([ring], [], [], seconds)[0])


def handle(ring):
    import ctypes

    return ctypes.cast(ring._producer_share().pointer(), ctypes.c_void_p)


def test_tokens_arrive_in_order_with_their_times():
    ring = kael.TokenRing(1000)
    assert not readable(ring)
    for token in range(1000):
        assert push(handle(ring), token) == 1
    assert readable(ring, 5)
    records, done = ring.drain()
    assert [token for token, _ in records] == list(range(1000))
    times = [nanoseconds for _, nanoseconds in records]
    assert times == sorted(times)
    assert not done
    ring.finish()
    assert readable(ring, 5)
    assert ring.drain() == ([], True)
    ring.close()


def test_the_descriptor_wakes_a_waiting_consumer():
    ring = kael.TokenRing(1)
    timer = threading.Timer(0.05, lambda: (push(handle(ring), 7), ring.finish()))
    timer.start()
    taken, done = [], False
    while not done:
        assert readable(ring, 10), "nothing woke the consumer"
        records, done = ring.drain()
        taken += [token for token, _ in records]
    assert taken == [7]
    timer.join()
    ring.close()


def test_a_full_ring_answers_failed():
    ring = kael.TokenRing(1)
    answers = {push(handle(ring), token) for token in range(4096)}
    assert answers == {1, -1}


def test_stop_reaches_the_producer():
    ring = kael.TokenRing(1)
    stopping = _library.native().kept.kael_token_ring_stopping
    assert stopping(handle(ring)) == 0
    ring.stop()
    assert stopping(handle(ring)) == 1


def test_either_side_may_end_last():
    for producer_last in (False, True):
        ring = kael.TokenRing(1)
        ends = [ring.close, ring.finish] if producer_last else [ring.finish, ring.close]
        for end in (*ends, *ends):  # a second call does nothing
            end()
        ring.stop()


def test_a_closed_ring_says_so():
    ring = kael.TokenRing(1)
    ring.close()
    with pytest.raises(kael.Error, match="token ring is closed"):
        ring.drain()
    with pytest.raises(kael.Error, match="token ring is closed"):
        ring.fileno()
    ring.finish()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="counts descriptors in /proc")
def test_collected_rings_leave_no_descriptor_behind():
    def descriptors():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    kael.TokenRing(1)
    before = descriptors()
    for _ in range(100):
        kael.TokenRing(8)
    assert descriptors() == before


@pytest.mark.parametrize("size", [-1, 2**31, 2**70])
def test_a_size_out_of_range_is_an_error(size):
    with pytest.raises(kael.Error, match="max_tokens is"):
        kael.TokenRing(size)


def test_a_size_that_is_no_integer_is_a_type_error():
    for size in (True, 1.0, "1", None):
        with pytest.raises(TypeError, match="max_tokens must be an integer"):
            kael.TokenRing(size)
