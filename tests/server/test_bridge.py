"""Tokens on their way from the generating thread to the event loop."""

from __future__ import annotations

import asyncio
import itertools
import threading

import pytest

import kael
from server import bridge as bridges


@pytest.fixture(scope="module")
def model():
    kael.manual_seed(0)
    return kael.GPT(vocab_size=64, max_positions=256, layers=1, heads=2, dimension=16)


def batches(model, tokens, each_at_once):
    """What the loop takes of a generation, one list each time."""

    async def take_all():
        bridge = bridges.open_bridge(model, tokens, threading.Event(), each_at_once)

        def work():
            bridge.generate(model, [1], tokens, temperature=0.0)
            bridge.end(None)

        worker = threading.Thread(target=work)
        worker.start()
        taken = []
        while batch := await bridge.take():
            taken.append(batch)
        worker.join()
        return taken

    return asyncio.run(asyncio.wait_for(take_all(), 20))


def test_tokens_that_need_not_come_at_once_wake_the_loop_seldom(model, monkeypatch):
    monkeypatch.setattr(bridges, "_GATHERING_SECONDS", 3600.0)
    expected = model.generate([1], 200, temperature=0.0)
    taken = batches(model, 200, each_at_once=False)
    assert list(itertools.chain(*taken)) == expected
    assert len(taken) <= 2  # the first that were there, and the rest with the end, which is not waited for


def test_tokens_that_must_come_at_once_arrive_whole_and_in_order(model):
    taken = batches(model, 200, each_at_once=True)
    assert list(itertools.chain(*taken)) == model.generate([1], 200, temperature=0.0)
