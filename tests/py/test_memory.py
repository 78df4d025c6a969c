"""Recordings of what tensors allocate."""

from __future__ import annotations

import json
import sys
import threading

import pytest

import kael

FLOAT32 = 4


def test_a_timeline_has_every_block_with_the_operator_that_asked_for_it():
    x = kael.zeros(1000)
    with kael.record_memory() as timeline:
        y = x.cos()
        z = y.neg().exp()
        del y
    kilo = 1000 * FLOAT32
    assert timeline.peak_bytes == 3 * kilo
    assert timeline.live_bytes == kilo
    assert timeline.allocations == 3
    assert timeline.dropped_events == 0
    assert (
        repr(timeline)
        == "<kael.MemoryTimeline of 3 allocations: at most 12,000 bytes at a time, 4,000 alive>"
    )
    assert timeline.by_operator() == {"cos": kilo, "neg": kilo, "exp": kilo}
    assert [(event["operator"], event["bytes"], event["live_bytes"]) for event in timeline.events] == [
        ("cos", kilo, kilo),
        ("neg", kilo, 2 * kilo),
        ("exp", kilo, 3 * kilo),
        ("neg", -kilo, 2 * kilo),
        ("cos", -kilo, kilo),
    ]
    seconds = [event["seconds"] for event in timeline.events]
    assert seconds == sorted(seconds)
    assert seconds[0] >= 0.0
    del z  # after the end: not counted
    assert timeline.live_bytes == kilo


def test_nodes_of_a_backward_pass_are_operators_of_their_own():
    x, y = (kael.ones(100).requires_grad_() for _ in range(2))
    loss = x.exp().sum() + y.sum()  # the gradient of y repeats one number, until the leaf copies it
    with kael.record_memory() as timeline:
        loss.backward()
    assert {event["operator"] for event in timeline.events} >= {"ExpBackward", "AccumulateGrad"}


def test_blocks_from_before_do_not_count():
    before = kael.zeros(1000)
    with kael.record_memory() as timeline:
        del before
        assert timeline.events == []
        assert timeline.peak_bytes == 0
        assert timeline.by_operator() == {}


def test_a_timeline_is_read_while_it_records():
    with kael.record_memory() as timeline:
        first = kael.zeros(10)
        assert timeline.live_bytes == 10 * FLOAT32
        second = kael.zeros(10)
        assert timeline.live_bytes == 20 * FLOAT32
    del first, second


def test_recordings_overlap():
    with kael.record_memory() as outer:
        first = kael.zeros(10)
        with kael.record_memory() as inner:
            second = kael.zeros(20)
    assert outer.peak_bytes == 30 * FLOAT32
    assert inner.peak_bytes == 20 * FLOAT32
    del first, second


def test_later_events_are_dropped_and_counted():
    with kael.record_memory(max_events=3) as timeline:
        kept = [kael.zeros(10) for _ in range(5)]
        del kept
    assert len(timeline.events) == 3
    assert timeline.dropped_events == 7
    assert timeline.peak_bytes == 50 * FLOAT32
    assert timeline.live_bytes == 0


def test_every_thread_is_recorded():
    def work():
        for _ in range(100):
            kael.zeros(16).cos()

    with kael.record_memory() as timeline:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert timeline.live_bytes == 0
    assert timeline.allocations == 800
    live = 0
    for event in timeline.events:
        live += event["bytes"]
        assert event["live_bytes"] == live


def test_a_timeline_is_written_as_json(tmp_path):
    with kael.record_memory() as timeline:
        x = kael.zeros(10).cos()
    timeline.to_json(tmp_path / "memory.json")
    data = json.loads((tmp_path / "memory.json").read_text())
    assert data["peak_bytes"] == timeline.peak_bytes
    assert data["events"] == timeline.events
    assert data["peak_by_operator"] == [{"operator": name, "bytes": 40} for name in ("cos", "full")]
    with pytest.raises(kael.Error, match=r"memory.json: No such file or directory"):
        timeline.to_json(tmp_path / "absent" / "memory.json")
    del x


def test_a_timeline_is_plotted_in_the_format_of_the_suffix(tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    with kael.record_memory() as timeline:
        x = kael.zeros(1000)
        for name in ("exp", "sin", "cos", "tanh", "abs", "neg", "sqrt", "square", "relu", "erf"):
            x = getattr(x, name)()
    timeline.plot(tmp_path / "memory.svg")
    assert "<svg" in (tmp_path / "memory.svg").read_text()
    timeline.plot(str(tmp_path / "memory.png"))
    assert (tmp_path / "memory.png").read_bytes().startswith(b"\x89PNG")
    with kael.record_memory() as empty:
        pass
    empty.plot(tmp_path / "empty.svg")
    with pytest.raises(kael.Error, match="is not supported"):
        timeline.plot(tmp_path / "memory.nothing")
    with pytest.raises(kael.Error, match="No such file or directory"):
        timeline.plot(tmp_path / "absent" / "memory.svg")


def test_what_is_missing_is_named(monkeypatch, tmp_path):
    with kael.record_memory() as timeline:
        pass
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(kael.Error, match=r"plots need the package matplotlib: pip install matplotlib$"):
        timeline.plot(tmp_path / "memory.svg")


def test_wrong_arguments_are_refused():
    with pytest.raises(TypeError, match="max_events"):
        kael.record_memory(max_events="many")
    with pytest.raises(kael.Error, match="max_events"):
        kael.record_memory(max_events=-1)
    with pytest.raises(TypeError, match="no constructor"):
        kael.MemoryTimeline()
