"""What the server relies on in kael.GPT.generate: the answers of on_token."""

from __future__ import annotations

import pytest

import kael


@pytest.fixture
def model():
    kael.manual_seed(0)
    return kael.GPT(vocab_size=256, max_positions=64, layers=1, heads=2, dimension=16)


def test_python_callback_errors_reach_the_caller(model):  # T23
    failure = KeyError("mine")

    def on_token(token):
        raise failure

    with pytest.raises(KeyError) as caught:
        model.generate([1], 5, on_token=on_token)
    assert caught.value is failure
    assert len(model.generate([1], 5)) == 5


@pytest.mark.parametrize("answer", [None, True, 1, "yes", [0]])
def test_truthy_or_missing_callback_answers_continue(model, answer):
    seen = []
    tokens = model.generate([1], 5, on_token=lambda token: seen.append(token) or answer)
    assert len(tokens) == 5
    assert seen == tokens


@pytest.mark.parametrize("answer", [False, 0, "", []])
def test_falsy_callback_answers_stop(model, answer):
    tokens = model.generate([1], 5, on_token=lambda token: answer)
    assert len(tokens) == 1
