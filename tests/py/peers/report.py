"""The figures of a group as JSON, and as a table."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from typing import Any

from peers.catalogue import KAEL
from peers.measurement import Figures, Group

# Figures that are best when they are small: in JSON, above the table, and by what they are divided there.
_SMALL = (
    ("start_seconds", "start, s", 1, ".2f"),
    ("load_seconds", "load, s", 1, ".2f"),
    ("peak_resident_bytes", "memory, MB", 1e6, ".0f"),
)


def summary(dtype: str, threads: int, group: Group) -> dict[str, Any]:
    """All figures of a group."""
    return {
        "dtype": dtype,
        "threads": threads,
        "engines": {engine: _of_engine(figures) for engine, figures in group.figures.items()},
        "failures": group.failures,
        "kael_to_best_peer": _ratios(group.figures),
    }


def _of_engine(figures: Figures) -> dict[str, Any]:
    return {
        "start_seconds": statistics.median(figures.start_seconds),
        "load_seconds": statistics.median(figures.load_seconds),
        "peak_resident_bytes": figures.peak_resident_bytes,
        "first_ids": figures.first_ids,
        "sleeps_between_turns": figures.sleeps,
        "workloads": {
            name: {
                "tokens_per_second": figures.rate(name),
                "turns": [turn._asdict() for turn in turns],
            }
            for name, turns in figures.turns.items()
        },
    }


def _ratios(figures: Mapping[str, Figures]) -> dict[str, dict[str, Any]]:
    """kael's figure to that of the best peer, by the name of the figure; nothing without one of them."""
    peers = [engine for engine in figures if engine != KAEL]
    if KAEL not in figures or not peers:
        return {}
    ours, ratios = figures[KAEL], {}
    for name, turns in ours.turns.items():
        best = max(peers, key=lambda peer, name=name: figures[peer].rate(name))
        # Of turns beside each other, for the machine's speed changes by the minute.
        pairs = zip(turns, figures[best].turns[name], strict=True)
        ratio = statistics.median(own.tokens_per_second / other.tokens_per_second for own, other in pairs)
        ratios[name] = {"ratio": ratio, "peer": best}
    own, others = _of_engine(ours), {peer: _of_engine(figures[peer]) for peer in peers}
    for name, *_ in _SMALL:
        best = min(peers, key=lambda peer, name=name: others[peer][name])
        ratios[name] = {"ratio": own[name] / others[best][name], "peer": best}
    return ratios


def table(group: Mapping[str, Any], titles: Mapping[str, str]) -> str:
    """A group's summary in Markdown; ``titles`` are the engines' names there."""
    engines, ratios = group["engines"], group["kael_to_best_peer"]
    title = f"{group['dtype']}, {group['threads']} thread{'' if group['threads'] == 1 else 's'}"
    if not engines:
        return f"{title}: nothing was measured"
    workloads = list(next(iter(engines.values()))["workloads"])
    lines = [title, ""]
    lines.append(_row("tokens/s", [*workloads, *(head for _, head, *_ in _SMALL)]))
    lines.append("|---" * (1 + len(workloads) + len(_SMALL)) + "|")
    for engine, figures in engines.items():
        cells = [f"{figures['workloads'][name]['tokens_per_second']:,.0f}" for name in workloads]
        cells += [format(figures[name] / unit, form) for name, _, unit, form in _SMALL]
        lines.append(_row(titles[engine], cells))
    if ratios:
        best = [ratios[name] for name in [*workloads, *(name for name, *_ in _SMALL)]]
        cells = [f"{one['ratio']:.2f} ({titles[one['peer']].rpartition(' ')[0]})" for one in best]
        lines.append(_row("kael / best peer", cells))
    blanks = [""] * len(_SMALL)
    bandwidth = [_range(engines, name, "read_bytes_per_second", 1e9, ".0f") for name in workloads]
    lines.append(_row("memory read meanwhile, GB/s", bandwidth + blanks))
    others = [_range(engines, name, "others", 1, ".2f") for name in workloads]
    lines.append(_row("processors used by others", others + blanks))
    return "\n".join(lines)


def notes(group: Mapping[str, Any], titles: Mapping[str, str]) -> list[str]:
    """What a reader of the table has to know besides."""
    said = [f"{titles[engine]} is left out: {reason}" for engine, reason in group["failures"].items()]
    said += [
        f"{titles[engine]} goes on working between its turns, at the cost of the others"
        for engine, figures in group["engines"].items()
        if not figures["sleeps_between_turns"]
    ]
    return said


def _range(engines: Mapping[str, Any], workload: str, figure: str, unit: float, form: str) -> str:
    values = [turn[figure] / unit for one in engines.values() for turn in one["workloads"][workload]["turns"]]
    low, middle, high = (format(pick(values), form) for pick in (min, statistics.median, max))
    return f"{middle} ({low} to {high})"


def _row(name: str, cells: Iterable[str]) -> str:
    return f"| {' | '.join([name, *cells])} |"
