"""Biases, penalties and filters of sample_next and generate, against transformers and closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from layouts import needs_torch

import kael

EVERYTHING = {
    "top_k": 20,
    "top_p": 0.95,
    "min_p": 0.02,
    "repetition_penalty": 1.2,
    "presence_penalty": 0.3,
    "frequency_penalty": 0.2,
    "logit_bias": {5: 2.0, 9: -1e9},
}


def picks(logits, draws, **options):
    return [kael.sample_next(logits, draw=draw, **options) for draw in draws]


def assert_drawn_from(probabilities, tokens, draws):
    """Each token must be the one at which the sum of the probabilities passes its draw."""
    ends = np.cumsum(np.asarray(probabilities, np.float64))
    for token, draw in zip(tokens, draws, strict=True):
        assert probabilities[token] > 0
        assert draw < ends[token] + 1e-5
        assert draw > (ends[token - 1] if token else 0.0) - 1e-5


@needs_torch
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize(
    ("top_k", "top_p", "min_p", "repetition_penalty"),
    [
        (0, 0.9, 0, 1.0),
        (0, 0.3, 0, 1.0),
        (0, 1.0, 0.1, 1.0),
        (7, 0.8, 0, 1.0),
        (0, 1.0, 0, 1.5),
        (30, 0.9, 0.05, 0.7),
    ],
)
def test_filters_and_repetition_are_those_of_transformers(seed, top_k, top_p, min_p, repetition_penalty):
    transformers = pytest.importorskip(
        "transformers", reason="transformers, the oracle of this test, is not installed"
    )
    import torch

    random = np.random.default_rng(seed)
    logits = random.standard_normal(500).astype(np.float32) * 3
    prompt = random.integers(0, 500, 12).tolist()
    temperature = float(random.uniform(0.5, 2))
    steps = [transformers.RepetitionPenaltyLogitsProcessor(repetition_penalty)]
    steps.append(transformers.TemperatureLogitsWarper(temperature))
    if top_k:
        steps.append(transformers.TopKLogitsWarper(top_k))
    if top_p < 1:
        steps.append(transformers.TopPLogitsWarper(top_p))
    if min_p:
        steps.append(transformers.MinPLogitsWarper(min_p))
    scores = torch.tensor(logits)[None]
    for step in steps:
        scores = step(torch.tensor([prompt]), scores)
    draws = random.random(40).tolist()
    options = {"top_k": top_k, "top_p": top_p, "min_p": min_p, "repetition_penalty": repetition_penalty}
    tokens = picks(logits, draws, temperature=temperature, prompt=prompt, **options)
    assert_drawn_from(torch.softmax(scores[0].double(), 0).numpy(), tokens, draws)


def test_presence_and_frequency_penalties_count_what_was_generated():
    logits = np.array([1.0, 2.0, 3.0, 0.5], np.float32)
    generated = [2, 2, 2, 1]
    adjusted = logits - 0.5 * np.array([0, 1, 1, 0]) - 0.25 * np.array([0, 1, 3, 0])
    probabilities = np.exp(adjusted) / np.exp(adjusted).sum()
    draws = np.linspace(0, 0.999, 50).tolist()
    tokens = picks(
        logits, draws, presence_penalty=0.5, frequency_penalty=0.25, generated=generated, prompt=[0, 0, 3]
    )
    assert_drawn_from(probabilities, tokens, draws)


@pytest.mark.parametrize("token", range(4))
def test_a_large_bias_decides_and_a_small_one_forbids(token):
    logits = np.zeros(4, np.float32)
    draws = (0.0, 0.3, 0.6, 0.999)
    assert set(picks(logits, draws, logit_bias={token: 1e9})) == {token}
    assert set(picks(logits, draws, temperature=0, logit_bias={token: 1e9})) == {token}
    assert token not in picks(logits, draws, logit_bias={token: -1e9})


floats = st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=60)
fractions = st.floats(0, 1, exclude_max=True)


@given(floats, fractions, st.integers(0, 70), st.floats(0, 1), st.floats(0, 1), st.floats(0.01, 10))
@example([0.0], 0.0, 0, 0.0, 1.0, 1.0)
def test_what_is_picked_is_never_less_likely_than_what_a_filter_drops(logits, draw, top_k, top_p, min_p, t):
    token = kael.sample_next(logits, t, top_k, draw, top_p=top_p, min_p=min_p)
    weights = np.exp((np.array(logits, np.float64) - max(logits)) / t)
    assert weights[token] >= min_p - 1e-12
    likelier = weights[weights > weights[token]]
    assert top_k == 0 or len(likelier) < top_k
    allowed = np.sort(weights)[::-1][: top_k or None]
    assert len(likelier) == 0 or likelier.sum() < top_p * allowed.sum() * (1 + 1e-9)


@given(floats, fractions)
def test_neutral_options_change_nothing(logits, draw):
    ids = [0, len(logits) - 1]
    assert kael.sample_next(logits, draw=draw) == kael.sample_next(
        logits,
        draw=draw,
        top_p=1,
        min_p=0,
        repetition_penalty=1,
        presence_penalty=0,
        frequency_penalty=0,
        logit_bias={0: 0},
        prompt=ids,
        generated=ids,
    )


def test_generate_is_sample_next_over_the_text_so_far(tiny):
    prompt = [1, 2, 3]
    for temperature in (0, 0.9):
        tokens = tiny.generate(prompt, 30, temperature=temperature, seed=4, **EVERYTHING)
        assert 9 not in tokens
        for index, token in enumerate(tokens):
            logits = tiny(prompt + tokens[:index]).numpy()[-1]
            text = {"prompt": prompt, "generated": tokens[:index]}
            possible = {
                kael.sample_next(logits, temperature, draw=draw, **EVERYTHING, **text)
                for draw in np.linspace(0, 0.999, 300)
            }
            assert token in possible


def test_the_same_seed_gives_the_same_tokens_on_any_number_of_threads(threads_restored):  # B103, B106
    kael.manual_seed(2)
    model = kael.GPT(vocab_size=9000, max_positions=64, layers=1, heads=2, dimension=16)
    texts = set()
    for threads, use_cache in itertools.product((1, 2, 5), (True, False)):
        kael.set_num_threads(threads)
        options = {**EVERYTHING, "top_k": 0, "temperature": 1.3}
        texts.add(tuple(model.generate([1, 2], 40, seed=11, use_cache=use_cache, **options)))
    assert len(texts) == 1


def test_the_ring_gets_the_same_tokens(tiny):
    expected = tiny.generate([1, 2], 20, seed=3, **EVERYTHING)
    ring = kael.TokenRing(20)
    assert tiny.generate_into(ring, [1, 2], 20, seed=3, **EVERYTHING).tokens == expected
    ring.finish()
    assert [token for token, _ in ring.drain()[0]] == expected
    ring.close()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"top_p": 1.5}, "top_p is 1.5, expected a number from 0 to 1"),
        ({"top_p": -0.1}, "top_p is -0.1, expected a number from 0 to 1"),
        ({"min_p": 2}, "min_p is 2, expected a number from 0 to 1"),
        ({"repetition_penalty": 0}, "repetition_penalty is 0, expected a finite number above 0"),
        ({"presence_penalty": float("nan")}, "presence_penalty is nan, expected a finite number"),
        ({"frequency_penalty": 1e40}, "frequency_penalty is 1e\\+40, expected a number in the range"),
        ({"logit_bias": {256: 1}}, "logit_bias names the token 256, expected 0 to 255"),  # B094
        ({"logit_bias": {-1: 1}}, "a token of logit_bias is -1, expected 0 to"),
        (
            {"logit_bias": {5279552648203111001 * 4: 1}},
            "a token of logit_bias is 2111.*, expected 0 to",
        ),  # B097
        ({"logit_bias": {1: float("inf")}}, "a value of logit_bias is inf, expected a finite number"),
    ],
)
def test_values_out_of_range_are_errors(tiny, arguments, message):
    with pytest.raises(kael.Error, match=message):
        tiny.generate([1], 1, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"top_p": "1"}, "top_p must be a number, not str"),
        ({"min_p": None}, "min_p must be a number, not None"),
        ({"logit_bias": [1]}, "logit_bias must be a mapping, not list"),
        ({"logit_bias": {"1": 1}}, "a token of logit_bias must be an integer, not str"),
        ({"logit_bias": {1: True}}, "a value of logit_bias must be a number, not True"),
    ],
)
def test_wrong_types_are_type_errors(tiny, arguments, message):
    with pytest.raises(TypeError, match=message):
        tiny.generate([1], 1, **arguments)


@pytest.mark.parametrize("text", [{"prompt": [4]}, {"generated": [-1]}])
def test_a_text_so_far_outside_the_logits_is_refused(text):
    with pytest.raises(kael.Error, match="the text so far holds the token"):
        kael.sample_next([1.0, 2.0, 3.0, 4.0], repetition_penalty=1.1, **text)
