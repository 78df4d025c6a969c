"""Operators on PyTorch's own samples of them; scripts/scoreboard runs all of those, these tests some."""

from __future__ import annotations

import importlib.util
import re
import warnings

import pytest
from opinfo import differences
from opinfo.outcomes import FAILED, PASSED, Outcome

needs_samples = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "expecttest")),
    reason="PyTorch's samples of operators need torch and expecttest, which are not both installed",
)


@needs_samples
def test_operators_answer_what_pytorch_answers_to_its_own_samples():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of PyTorch, about its own samples
        from opinfo import judge, operators

        outcomes = [
            outcome
            for info in operators.shared()
            for outcome in judge.judge(info, ("float32", "int64"), layouts=False)
        ]
    known = differences.read()
    wrong = [
        outcome
        for outcome in outcomes
        if outcome.status == FAILED and differences.reason(outcome, known) is None
    ]
    assert not wrong, "\n".join(map(str, wrong[:20]))
    assert sum(outcome.status == PASSED for outcome in outcomes) > 3000


def test_every_known_difference_is_a_line_that_can_be_read():
    lines = differences.read()
    for line in lines:
        re.compile(line.text)
        assert all(field.strip() == field != "" for field in line), line
    assert len(set(lines)) == len(lines)


def test_a_known_difference_explains_what_it_names_and_nothing_else():
    line = differences.Known("pow, __r*__", "int64, int8", "forward", "power -\\d", "because")
    outcome = Outcome("pow", "int8", "forward", "int8[2]", FAILED, "raises Error: to the power -3")
    assert differences.reason(outcome, [line]) == "because"
    others = {"operator": "power", "dtype": "int", "check": "gradient", "status": PASSED, "text": "power 3"}
    for name, value in others.items():
        assert differences.reason(Outcome(**{**vars(outcome), name: value}), [line]) is None, name


def test_a_known_difference_that_is_gone_is_named_by_the_operators_that_ran():
    line = differences.Known("pow, square, cat", "*", "*", "power", "because")
    shown = Outcome("pow", "int8", "forward", "", FAILED, "to the power -3")
    passed = Outcome("square", "int8", "forward", "", PASSED)
    assert differences.no_longer_there([line], [shown, passed]) == ["square: because"]
