"""Engines with one dtype and one number of threads, measured in turns."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from kael import _machine
from peers import machine
from peers.interface import Answer
from peers.launching import EngineError
from peers.process import EngineProcess

_BLOCK = 32  # tokens that a turn of decoding generates, in the middle of which the depth is
_BANDWIDTH_REPEATS = 3
_SLEEP_SECONDS = 2.0

# With which the engines are compared: the lengths of a prompt and of what is generated after it.
CHECKED = (32, 8)


class Decode(NamedTuple):
    """Tokens one by one, about so far into a text."""

    depth: int

    @property
    def name(self) -> str:
        return f"decode at {self.depth}"

    @property
    def shape(self) -> tuple[int, int]:
        """The lengths of the prompt and of what is generated."""
        return max(1, self.depth - _BLOCK // 2), _BLOCK + 1

    def rate(self, answer: Answer) -> float:
        return _BLOCK / answer.decode_seconds


class Prompt(NamedTuple):
    """A text of so many tokens that is read before the first one comes."""

    length: int

    @property
    def name(self) -> str:
        return f"prompt of {self.length}"

    @property
    def shape(self) -> tuple[int, int]:
        """The lengths of the prompt and of what is generated."""
        return self.length, 1

    def rate(self, answer: Answer) -> float:
        return self.length / answer.prompt_seconds


Workload = Decode | Prompt


class Turn(NamedTuple):
    """What was measured in one turn."""

    tokens_per_second: float
    read_bytes_per_second: float  # of the memory, before and after
    others: float  # processors that other programs used meanwhile


@dataclass
class Figures:
    """Of one engine."""

    start_seconds: list[float] = field(default_factory=list)
    load_seconds: list[float] = field(default_factory=list)
    first_ids: list[int] = field(default_factory=list)
    turns: dict[str, list[Turn]] = field(default_factory=dict)  # a turn in each round
    peak_resident_bytes: int = 0
    sleeps: bool = True  # between its turns

    def rate(self, workload: str) -> float:
        return statistics.median(turn.tokens_per_second for turn in self.turns[workload])


@dataclass(frozen=True)
class Plan:
    """What is measured of every engine."""

    workloads: tuple[Workload, ...]
    vocabulary: int
    rounds: int
    starts: int
    wait: float  # for others to leave the processors alone, before a turn

    def prompt(self, workload: Workload, round_number: int) -> list[int]:
        """Other ids in every round, so that nothing of an earlier turn can be used again."""
        return self.ids(workload.shape[0], f"{workload.name}, round {round_number}")

    def ids(self, count: int, seed: str) -> list[int]:
        draws = random.Random(seed)
        return [draws.randrange(self.vocabulary) for _ in range(count)]


class Group:
    """The engines of one dtype and one number of threads; inside a with block."""

    def __init__(self, plan: Plan, threads: int, commands: dict[str, list[str]]) -> None:
        self._plan, self._threads, self._commands = plan, threads, commands
        self._processes: dict[str, EngineProcess] = {}
        self.figures = {engine: Figures() for engine in commands}
        self.failures: dict[str, str] = {}

    def __enter__(self) -> Group:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes.values():
            process.end()

    def measure(self) -> None:
        """Fills the figures; an engine that fails goes to the failures."""
        for _ in range(self._plan.starts):
            self._each(self._start)
        self._each(self._warm_up)
        for number in range(self._plan.rounds):
            for workload in self._plan.workloads:
                self._each(lambda engine, w=workload, n=number: self._take_turn(engine, w, n), number)
        for engine, process in self._processes.items():
            self.figures[engine].peak_resident_bytes = process.peak_resident_bytes

    def _each(self, act: Callable[[str], None], first: int = 0) -> None:
        """Lets every engine act, beginning with another one each time."""
        engines = list(self.figures)
        for position in range(len(engines)):
            engine = engines[(first + position) % len(engines)]
            try:
                act(engine)
            except EngineError as error:
                self.failures[engine] = str(error)
                del self.figures[engine]
                self._end(engine)

    def _end(self, engine: str) -> None:
        if engine in self._processes:
            self._processes.pop(engine).end()

    def _start(self, engine: str) -> None:
        self._end(engine)
        machine.wait_for_quiet(self._plan.wait)
        figures = self.figures[engine]
        started = time.perf_counter()
        process = self._processes[engine] = EngineProcess(self._commands[engine], self._threads)
        figures.load_seconds.append(process.wait_until_loaded())
        figures.start_seconds.append(time.perf_counter() - started)
        figures.sleeps &= process.falls_asleep(_SLEEP_SECONDS)

    def _warm_up(self, engine: str) -> None:
        plan, process = self._plan, self._processes[engine]
        self.figures[engine].first_ids = process.generate(plan.ids(CHECKED[0], "check"), CHECKED[1]).tokens
        for workload in plan.workloads:
            process.generate(plan.prompt(workload, -1), workload.shape[1])
        self.figures[engine].sleeps &= process.falls_asleep(_SLEEP_SECONDS)

    def _take_turn(self, engine: str, workload: Workload, number: int) -> None:
        process, figures = self._processes[engine], self.figures[engine]
        prompt, count = self._plan.prompt(workload, number), workload.shape[1]
        machine.wait_for_quiet(self._plan.wait)
        before = self._bandwidth()
        started, all_busy, own_busy = time.perf_counter(), machine.busy_seconds(), process.busy_seconds
        answer = process.generate(prompt, count)
        others = machine.busy_seconds() - all_busy - (process.busy_seconds - own_busy)
        seconds = time.perf_counter() - started
        figures.sleeps &= process.falls_asleep(_SLEEP_SECONDS)
        bandwidth = (before + self._bandwidth()) / 2
        turn = Turn(workload.rate(answer), bandwidth, max(0.0, others / seconds))
        figures.turns.setdefault(workload.name, []).append(turn)

    def _bandwidth(self) -> float:
        return _machine.measure_read_bandwidth(self._threads, _BANDWIDTH_REPEATS)
