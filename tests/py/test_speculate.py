"""Guessing tokens from the text (``speculate``) changes nothing but the time an answer takes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kael
from kael import _generation
from kael._sampling import Sampling

POSITIONS = 40
VOCABULARY = 8


@pytest.fixture(scope="module")
def model():
    """A small model whose numbers spread, and that soon goes in circles."""
    kael.manual_seed(21)
    config = {"layers": 2, "heads": 2, "dimension": 16}
    first = kael.GPT(VOCABULARY, POSITIONS, **config)
    weights = {
        name: value if ".ln_" in name or name.startswith("ln") else kael.randn(*value.shape) * 0.4
        for name, value in first.state_dict().items()
    }
    first.load_state_dict(weights)
    return first


def ask(model, ids, max_tokens, speculate, *, stop_tokens=(), stop_after=None, seed=0, **sampling):
    """All that can be seen of a generation, and how many tokens were guessed."""
    logprobs = kael.Logprobs(max_tokens, 2)
    announced = []

    def on_token(token):
        announced.append((token, logprobs.token(len(announced)).logprob))
        return len(announced) != stop_after

    request = _generation.Request(
        ids, max_tokens, Sampling(**sampling), seed, stop_tokens, logprobs, speculate=speculate
    )
    generation = model._generate(request, on_token)
    rows = [logprobs.token(index) for index in range(len(generation.tokens))]
    said = [(row.token, row.logprob, row.top) for row in rows]
    return (generation.tokens, announced, said, generation.finish_reason), generation.guessed_tokens


tokens = st.integers(0, VOCABULARY - 1)
# Much comes twice: what stands between is short.
prompts = st.lists(tokens, min_size=1, max_size=6).flatmap(
    lambda part: st.lists(tokens, max_size=3).map(lambda other: part + other + part)
)


@given(
    prompt=prompts,
    max_tokens=st.integers(1, 60),  # past the context, where nothing can be tried
    guesses=st.integers(1, 64),
    temperature=st.sampled_from([0.0, 0.2, 0.7, 1.0]),
    top_k=st.sampled_from([0, 3]),
    penalties=st.booleans(),
    stop_tokens=st.lists(tokens, max_size=1),
    stop_after=st.none() | st.integers(1, 30),
    seed=st.integers(0, 5),
)
def test_the_answer_is_the_one_without_guesses(
    model, prompt, max_tokens, guesses, temperature, top_k, penalties, stop_tokens, stop_after, seed
):
    options = {
        "temperature": temperature,
        "top_k": top_k,
        "seed": seed,
        "stop_tokens": stop_tokens,
        "stop_after": stop_after,
    }
    if penalties:
        options |= {
            "repetition_penalty": 1.1,
            "presence_penalty": 0.1,
            "frequency_penalty": 0.05,
            "logit_bias": {1: 0.3},
            "min_p": 0.01,
        }
    plain, none = ask(model, prompt, max_tokens, 0, **options)
    tried, _ = ask(model, prompt, max_tokens, guesses, **options)
    assert tried == plain
    assert none == 0


def test_a_text_that_repeats_itself_is_mostly_guessed():
    kael.manual_seed(3)
    model = kael.GPT(VOCABULARY, 256, layers=1, heads=2, dimension=16)
    (tokens, *_), guessed = ask(model, [1, 2, 3], 200, 8, temperature=0.0)
    assert len({tuple(tokens[at : at + 4]) for at in range(150, 196)}) < 10  # it has begun to go in circles
    assert guessed > 150


def test_the_public_calls_take_it(model):
    expected = model.generate([1, 2, 1, 2], 20, seed=1)
    assert model.generate([1, 2, 1, 2], 20, seed=1, speculate=5) == expected
    ring = kael.TokenRing(20)
    generation = model.generate_into(ring, [1, 2, 1, 2], 20, seed=1, speculate=5)
    ring.finish()
    assert generation.tokens == expected
    assert [token for token, _ in ring.drain()[0]] == expected
    ring.close()


def test_an_exception_of_on_token_leaves_a_model_that_goes_on(model):
    expected = model.generate([1, 2, 1, 2], 20, temperature=0)
    for at in range(1, 20):
        seen = []

        def on_token(token, seen=seen, at=at):
            seen.append(token)
            if len(seen) == at:
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            model.generate([1, 2, 1, 2], 20, temperature=0, speculate=8, on_token=on_token)
        assert seen == expected[:at]
        assert model.generate([1, 2, 1, 2], 20, temperature=0, speculate=8) == expected


@pytest.mark.parametrize("wrong", [-1, 65, 2**70])
def test_more_guesses_than_there_may_be_are_refused(tiny, wrong):
    with pytest.raises(kael.Error, match=r"speculate is .*expected 0 to 64"):
        tiny.generate([1], 1, speculate=wrong)


def test_speculate_must_be_an_integer(tiny):
    with pytest.raises(TypeError, match="speculate must be an integer, not True"):
        tiny.generate([1], 1, speculate=True)
