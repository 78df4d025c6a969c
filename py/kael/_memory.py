"""What tensors allocate, and for which operators: recordings of the library's allocator."""

from __future__ import annotations

import ctypes
import json
import os
from pathlib import Path
from typing import Any

from kael import _checks, _signatures
from kael._errors import Error, ErrorCode
from kael._handles import NotCopied, Owned
from kael._library import answered_text, check_status, native

_MEBIBYTE = 2.0**20
_MOST_COLORS = 8  # operators of their own in a plot


class MemoryTimeline(NotCopied):
    """What tensors allocated in a ``with kael.record_memory()`` block; earlier memory does not count. May be
    read inside the block too, from any thread.
    """

    __module__ = "kael"
    __slots__ = ("_owned", "_read")
    _owned: Owned
    _read: dict[str, Any] | None

    def __init__(self) -> None:
        raise TypeError("kael.MemoryTimeline has no constructor: see kael.record_memory")

    def __repr__(self) -> str:
        return (
            f"<kael.MemoryTimeline of {self.allocations:,} allocations: at most {self.peak_bytes:,} bytes at "
            f"a time, {self.live_bytes:,} alive>"
        )

    @property
    def peak_bytes(self) -> int:
        """The most bytes alive at one time, as tensors asked for them."""
        return int(self._data()["peak_bytes"])

    @property
    def live_bytes(self) -> int:
        """The bytes alive now, or at the end of the block."""
        return int(self._data()["live_bytes"])

    @property
    def allocations(self) -> int:
        """How many blocks were allocated."""
        return int(self._data()["allocations"])

    @property
    def dropped_events(self) -> int:
        """How many events came after ``max_events`` of them; everything else counts them."""
        return int(self._data()["dropped_events"])

    @property
    def events(self) -> list[dict[str, Any]]:
        """Each block that was allocated or, with negative ``bytes``, freed: ``seconds`` since the beginning,
        ``bytes``, ``live_bytes`` afterwards, and the ``operator`` that allocated it (``""`` outside of
        operators).
        """
        return list(self._data()["events"])

    def by_operator(self) -> dict[str, int]:
        """The bytes alive at the peak by the operator that allocated them, the largest first. In a backward
        pass the operator is the node, as in ``"MulBackward"``.
        """
        return {entry["operator"]: entry["bytes"] for entry in self._data()["peak_by_operator"]}

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Writes all of that to a file (docs/debugging.md lists the fields)."""
        target = Path(os.fspath(path))
        try:
            target.write_text(json.dumps(self._data()), encoding="utf-8")
        except OSError as error:
            raise Error(f"{target}: {error.strerror}", ErrorCode.IO_ERROR) from error

    def plot(self, path: str | os.PathLike[str]) -> None:
        """Draws the bytes alive over time, by operator, to a file whose suffix says how: ``.svg``, ``.png``,
        ``.pdf``. Needs the package matplotlib.
        """
        target = Path(os.fspath(path))
        figure = _figure()
        axes = figure.add_subplot()
        times, layers = _layers(self._data())
        labels = [name or "outside of operators" for name in layers]
        if times:
            axes.stackplot(times, list(layers.values()), labels=labels, step="post")
            axes.legend(loc="upper left", fontsize="small")
        axes.set_xlabel("milliseconds")
        axes.set_ylabel("MiB alive")
        title = f"peak {self.peak_bytes / _MEBIBYTE:.3g} MiB"
        if self.dropped_events:
            title += f", the last {self.dropped_events:,} events not shown"
        axes.set_title(title)
        axes.margins(x=0)
        try:
            figure.savefig(target)
        except ValueError as error:
            raise Error(f"{target}: {error}") from None
        except OSError as error:
            raise Error(f"{target}: {error.strerror}", ErrorCode.IO_ERROR) from error

    def _data(self) -> dict[str, Any]:
        if self._read is not None:
            return self._read
        pointer = self._owned.pointer()
        text = answered_text(lambda *out: native().released.kael_memory_recording_json(pointer, *out))
        return json.loads(text)

    def _end(self) -> None:
        check_status(native().kept.kael_memory_recording_stop(self._owned.pointer()))
        self._read = self._data()


class record_memory:  # used as a function
    """``with kael.record_memory() as timeline:`` records what tensors allocate, on every thread of the
    process, in a :class:`kael.MemoryTimeline`. Of more than ``max_events`` events the later ones are counted,
    and dropped. Recordings may overlap.
    """

    def __init__(self, max_events: int = 100_000) -> None:
        self._max_events = _checks.integer("max_events", max_events, 0, _checks.INT64_MAX)
        self._running: list[MemoryTimeline] = []

    def __enter__(self) -> MemoryTimeline:
        handle = ctypes.POINTER(_signatures.MemoryRecordingHandle)()
        timeline = object.__new__(MemoryTimeline)
        timeline._owned = Owned(handle, native().released.kael_memory_recording_free, "recording")
        timeline._read = None
        check_status(native().kept.kael_memory_recording_start(self._max_events, ctypes.byref(handle)))
        self._running.append(timeline)
        return timeline

    def __exit__(self, *_: object) -> None:
        self._running.pop()._end()


def _figure() -> Any:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise Error(
            "plots need the package matplotlib: pip install matplotlib", ErrorCode.UNSUPPORTED
        ) from None
    return Figure(figsize=(9, 4.5), layout="constrained")


def _layers(data: dict[str, Any]) -> tuple[list[float], dict[str, list[float]]]:
    """Milliseconds, and for each operator the MiB alive then; the smaller ones together."""
    most: dict[str, int] = {}
    live: dict[str, int] = {}
    for event in data["events"]:
        name = event["operator"]
        live[name] = live.get(name, 0) + event["bytes"]
        most[name] = max(most.get(name, 0), live[name])
    own = sorted(most, key=lambda name: -most[name])[:_MOST_COLORS]
    names = own + (["others"] if len(most) > len(own) else [])
    now = dict.fromkeys(names, 0.0)
    times: list[float] = []
    layers: dict[str, list[float]] = {name: [] for name in names}
    for event in data["events"]:
        now[event["operator"] if event["operator"] in own else "others"] += event["bytes"] / _MEBIBYTE
        times.append(event["seconds"] * 1000.0)
        for name in names:
            layers[name].append(now[name])
    return times, layers
