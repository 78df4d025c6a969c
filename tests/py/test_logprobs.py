"""kael.Logprobs, against the softmax of the model's logits."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import kael


def expected(model, ids):
    """The log probabilities that follow each of ``ids``."""
    logits = model(ids).numpy().astype(np.float64)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def assert_entry(entry, token, logprobs, top):
    assert entry.token == token
    assert entry.logprob == pytest.approx(logprobs[token], abs=1e-9)
    order = np.argsort(-logprobs, kind="stable")[:top]
    assert [other for other, _ in entry.top] == order.tolist()
    assert [logprob for _, logprob in entry.top] == pytest.approx(logprobs[order].tolist(), abs=1e-9)


@pytest.mark.parametrize("top", [0, 1, 5])
def test_each_token_has_its_log_probability_and_the_likeliest(tiny, top):
    record = kael.Logprobs(10, top=top, prompt_tokens=3)
    tokens = tiny.generate([1, 2, 3], 10, temperature=1.4, top_k=8, seed=1, logprobs=record)
    text = [1, 2, 3, *tokens]
    rows = expected(tiny, text)
    for index in (1, 2):
        assert_entry(record.prompt_token(index), text[index], rows[index - 1], top)
    for index, token in enumerate(tokens):
        assert_entry(record.token(index), token, rows[index + 2], top)


def test_sampling_does_not_change_them(tiny):
    plain, biased = kael.Logprobs(1, top=256), kael.Logprobs(1, top=256)
    tiny.generate([1, 2], 1, temperature=0, logprobs=plain)
    tiny.generate([1, 2], 1, temperature=0, logit_bias={7: 1e6}, logprobs=biased)
    assert biased.token(0).token == 7
    assert biased.token(0).top == plain.token(0).top
    assert sum(np.exp(logprob) for _, logprob in plain.token(0).top) == pytest.approx(1)


def test_a_small_vocabulary_has_no_more_than_it_has():
    kael.manual_seed(0)
    model = kael.GPT(vocab_size=4, max_positions=8, layers=1, heads=1, dimension=4)
    record = kael.Logprobs(1, top=20)
    model.generate([1], 1, logprobs=record)
    assert sorted(token for token, _ in record.token(0).top) == [0, 1, 2, 3]


def test_an_entry_is_there_when_its_token_is_announced(tiny):
    record = kael.Logprobs(6)
    seen = []
    tiny.generate(
        [1], 6, on_token=lambda token: seen.append((token, record.token(len(seen)).token)), logprobs=record
    )
    assert len(seen) == 6
    assert all(token == announced for token, announced in seen)


def test_the_ring_has_them_too(tiny):
    record, direct, ring = kael.Logprobs(5, top=2), kael.Logprobs(5, top=2), kael.TokenRing(5)
    tiny.generate_into(ring, [1], 5, seed=1, logprobs=record)
    ring.finish()
    ring.close()
    tiny.generate([1], 5, seed=1, logprobs=direct)
    assert [record.token(i) for i in range(5)] == [direct.token(i) for i in range(5)]


def test_the_prompt_alone_can_be_asked_about(tiny):
    record = kael.Logprobs(0, prompt_tokens=64)
    prompt = list(range(64))
    assert tiny.generate(prompt, 0, logprobs=record) == []
    rows = expected(tiny, prompt)
    for index in range(1, 64):
        assert record.prompt_token(index).logprob == pytest.approx(rows[index - 1][index], abs=1e-9)


def test_what_is_not_there_is_an_error(tiny):
    record = kael.Logprobs(4)
    for read in (lambda: record.token(0), lambda: record.prompt_token(1)):
        with pytest.raises(kael.Error, match="there are no log probabilities of"):
            read()
    tiny.generate([1], 4, logprobs=record)
    assert record.token(3)
    tiny.generate([1], 2, logprobs=record)
    with pytest.raises(kael.Error, match="of new token 2 yet"):
        record.token(2)
    with pytest.raises(kael.Error, match="index is 0, expected 1 to"):
        record.prompt_token(0)


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (lambda: kael.Logprobs(3), "the logprobs have room for 3 tokens, max_tokens is 4"),
        (lambda: kael.Logprobs(4, prompt_tokens=3), "a prompt of 3 tokens, this one has 2"),
        (lambda: kael.Logprobs(4, top=-1), "top is -1, expected 0 to 1000"),
        (lambda: kael.Logprobs(-1), "max_tokens is -1, expected 0 to"),
    ],
)
def test_a_room_that_does_not_fit_is_refused(tiny, record, message):
    with pytest.raises(kael.Error, match=message):
        tiny.generate([1, 2], 4, logprobs=record())


def test_a_prompt_beyond_the_context_is_refused(tiny):
    record = kael.Logprobs(1, prompt_tokens=65)
    with pytest.raises(kael.Error, match="prompt_logprobs of 65 tokens, expected at most the context of 64"):
        tiny.generate([1] * 65, 1, logprobs=record)


def test_something_else_is_a_type_error(tiny):
    with pytest.raises(TypeError, match=r"logprobs must be a kael\.Logprobs, not int"):
        tiny.generate([1], 1, logprobs=5)
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        pickle.dumps(kael.Logprobs(1))
