"""The known differences: what is meant to differ from PyTorch, and why."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import NamedTuple

from opinfo.outcomes import FAILED, Outcome

FILE = Path(__file__).with_name("known_differences.tsv")


class Known(NamedTuple):
    """A line of the file. ``operators``, ``dtypes`` and ``checks`` are lists, separated by commas, of names
    with ``*`` for any; ``text`` is a regular expression for some of what the outcome says.
    """

    operators: str
    dtypes: str
    checks: str
    text: str
    reason: str

    def explains(self, outcome: Outcome) -> bool:
        return (
            outcome.status == FAILED
            and _listed(outcome.operator, self.operators)
            and _listed(outcome.dtype, self.dtypes)
            and _listed(outcome.check, self.checks)
            and re.search(self.text, outcome.text) is not None
        )


def _listed(name: str, patterns: str) -> bool:
    return any(fnmatchcase(name, pattern.strip()) for pattern in patterns.split(","))


def read(file: Path = FILE) -> list[Known]:
    with open(file, encoding="utf-8", newline="") as opened:
        head, *lines = csv.reader(opened, delimiter="\t", quoting=csv.QUOTE_NONE)
    assert tuple(head) == Known._fields, f"{file.name} begins with the names of its columns"
    return [Known(*line) for line in lines]


def reason(outcome: Outcome, known: Iterable[Known]) -> str | None:
    """Why a failed outcome is no failure."""
    return next((line.reason for line in known if line.explains(outcome)), None)


def no_longer_there(known: Iterable[Known], outcomes: Iterable[Outcome]) -> list[str]:
    """What the file lists and no outcome shows: each operator of a line, by its pattern. Operators that were
    not run do not count.
    """
    outcomes = list(outcomes)
    names = {outcome.operator for outcome in outcomes}
    return [
        f"{pattern}: {line.reason}"
        for line in known
        for pattern in (part.strip() for part in line.operators.split(","))
        if any(fnmatchcase(name, pattern) for name in names)
        and not any(fnmatchcase(outcome.operator, pattern) and line.explains(outcome) for outcome in outcomes)
    ]
