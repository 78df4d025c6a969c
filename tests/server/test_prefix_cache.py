"""Prompts that begin alike: what was kept is told, counted, and changes no answer; --no-prefix-cache."""

from __future__ import annotations

import json

import pytest
import server_checkpoint
import server_process
from hypothesis import given
from hypothesis import strategies as st
from server_fakes import Echo
from server_live import Server

from server import Settings, load_app

BEGINNING = "Once upon a time there was "


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return server_checkpoint.write(tmp_path_factory.mktemp("checkpoint"))


def serve_folder(folder, **settings):
    return Server(load_app(folder, settings=Settings(**settings)).generator)


@pytest.fixture
def caching(folder):
    server = serve_folder(folder)
    yield server
    server.close()


@pytest.fixture(scope="module")
def plain(folder):
    server = serve_folder(folder, no_prefix_cache=True)
    yield server
    server.close()


def cached(answer):
    return answer.json["timings"]["cached_tokens"]


def test_an_answer_says_for_how_many_tokens_of_its_prompt_nothing_was_computed(caching):
    first = caching.generate(BEGINNING + "a", max_tokens=3, seed=1)
    assert cached(first) == 0
    assert cached(caching.generate(BEGINNING + "b", max_tokens=3)) == len(BEGINNING)
    assert cached(caching.generate(BEGINNING + "b", max_tokens=3)) == len(BEGINNING)
    assert caching.sample("kael_cached_prompt_tokens_total") == 2 * len(BEGINNING)
    assert caching.sample("kael_prompt_tokens_total") == 3 * (len(BEGINNING) + 1)


def test_a_stream_says_it_in_its_details(caching):
    caching.generate(BEGINNING, max_tokens=1)
    *_, details, done = caching.generate(BEGINNING, max_tokens=1, stream=True, details=True).events
    assert done is None
    assert details["timings"]["cached_tokens"] == len(BEGINNING) - 1


def test_a_text_that_goes_on_keeps_the_answer_too(caching):
    letters = {str(byte): 100 for byte in b"abcdefghijklmnopqrstuvwxyz"}  # each a token, and read as one
    answer = caching.generate(BEGINNING, max_tokens=20, seed=4, logit_bias=letters)
    again = caching.generate(BEGINNING + answer.json["text"] + "!", max_tokens=1)
    assert cached(again) == len(BEGINNING) + 19  # the last one was drawn, and never read


def test_openais_usage_has_the_number(caching):
    body = {"prompt": BEGINNING, "max_tokens": 2}
    numbers = []
    for fields in ({}, {}, {"stream": True, "stream_options": {"include_usage": True}}):
        answer = caching.request("POST", "/v1/completions", json.dumps({**body, **fields}))
        usage = (answer.events[-2] if fields else answer.json)["usage"]
        numbers.append(usage["prompt_tokens_details"]["cached_tokens"])
    assert numbers == [0, len(BEGINNING) - 1, len(BEGINNING) - 1]


def test_a_model_that_keeps_nothing_says_nothing(serve):
    server = serve(Echo())
    assert cached(server.generate("hi", max_tokens=2)) is None
    answer = server.request("POST", "/v1/completions", json.dumps({"prompt": "hi", "max_tokens": 2}))
    assert "prompt_tokens_details" not in answer.json["usage"]
    assert server.sample("kael_cached_prompt_tokens_total") == 0


def test_without_the_cache_every_prompt_is_computed(plain):
    for _ in range(2):
        answer = plain.generate(BEGINNING, max_tokens=2, seed=1)
        assert cached(answer) == 0
    assert plain.sample("kael_cached_prompt_tokens_total") == 0


def test_log_probabilities_of_the_prompt_keep_nothing(caching):
    for _ in range(2):
        answer = caching.generate(BEGINNING, max_tokens=2, seed=1, echo=True, logprobs=1)
        assert cached(answer) == 0
        assert len(answer.json["logprobs"]) == len(BEGINNING) + 2
    assert cached(caching.generate(BEGINNING, max_tokens=2, seed=1, logprobs=1)) == len(BEGINNING) - 1


prompts = st.text("ab", min_size=1, max_size=12)


@given(requests=st.lists(st.tuples(prompts, st.integers(1, 8)), min_size=2, max_size=4))
def test_no_answer_depends_on_those_before_it(folder, plain, requests):
    server = serve_folder(folder)
    try:
        for prompt, max_tokens in requests:
            answers = [
                one.generate(prompt, max_tokens=max_tokens, seed=5, logprobs=2).json
                for one in (server, plain)
            ]
            for answer in answers:
                for times in ("seconds", "timings"):
                    answer.pop(times)
            assert answers[0] == answers[1]
    finally:
        server.close()


def test_a_process_takes_the_flag(folder):
    with server_process.serve("--data", folder, "--no-prefix-cache") as server:
        assert [cached(server.generate(BEGINNING, max_tokens=1)) for _ in range(2)] == [0, 0]
