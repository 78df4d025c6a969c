"""--speculate: the answers are the same, and so are their streams."""

from __future__ import annotations

import json

import pytest
import server_checkpoint
import server_process
from hypothesis import given
from hypothesis import strategies as st
from server_live import Server

from server import Settings, load_app


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return server_checkpoint.write(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="module")
def servers(folder):
    """One that guesses, and one that does not."""
    pair = [Server(load_app(folder, settings=Settings(speculate=count)).generator) for count in (6, 0)]
    yield pair
    for server in pair:
        server.close()


def without_times(answer):
    return {name: value for name, value in answer.json.items() if name not in ("seconds", "timings")}


@given(
    part=st.text("abc", min_size=1, max_size=6),
    fields=st.fixed_dictionaries(
        {
            "max_tokens": st.integers(1, 80),
            "seed": st.integers(0, 3),
            "temperature": st.sampled_from([0, 0.5, 1]),
            "stop": st.sampled_from([[], ["ab"], ["\x00", "c"]]),
        },
        optional={"logprobs": st.integers(0, 2), "echo": st.booleans(), "frequency_penalty": st.just(0.2)},
    ),
)
def test_answers_are_those_of_a_server_that_guesses_nothing(servers, part, fields):
    answers = [server.generate(part * 3, **fields) for server in servers]
    assert without_times(answers[0]) == without_times(answers[1])
    streams = [server.generate(part * 3, **fields, stream=True).text for server in servers]
    assert streams[0] == streams[1] == answers[1].json["text"]


# Each of two tokens comes when the other has come once more: a text in circles, whatever the model.
CIRCLES = {
    "temperature": 0,
    "frequency_penalty": 2,
    "logit_bias": {"97": 100, "98": 99},
    "max_tokens": 40,
}


def test_openais_route_guesses_as_well(servers):
    before = servers[0].sample("kael_guessed_tokens_total")
    body = json.dumps({"prompt": "abababab", **CIRCLES})
    texts = [server.request("POST", "/v1/completions", body).json["choices"][0]["text"] for server in servers]
    assert texts[0] == texts[1]
    assert servers[0].sample("kael_guessed_tokens_total") > before


def test_a_process_takes_the_setting(folder):
    with server_process.serve("--data", folder, "--speculate", "8") as server:
        answer = server.generate("abababab", **CIRCLES).json
        assert answer["tokens"] == 40
        assert answer["timings"]["guessed_tokens"] > 0


def test_how_many_were_guessed_is_told_and_counted(servers):
    guessing, plain = servers
    before = guessing.sample("kael_guessed_tokens_total")
    timings = [server.generate("abababab", **CIRCLES).json["timings"] for server in servers]
    assert 0 < timings[0]["guessed_tokens"] < 40
    assert timings[1]["guessed_tokens"] == 0
    assert guessing.sample("kael_guessed_tokens_total") == before + timings[0]["guessed_tokens"]
    assert plain.sample("kael_guessed_tokens_total") == 0
