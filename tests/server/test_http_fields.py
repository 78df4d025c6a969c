"""What the fields of POST /generate do beyond the seed's, the same in both modes."""

from __future__ import annotations

import itertools
import json
import threading
import time

import numpy as np
import pytest
import server_checkpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from server_fakes import Bytes, Echo, EndlessModel, EndlessRing, Paced, Recorder, Sequence, SlowTokenizer
from server_live import LONGER, Server, message, read_response, wait_for

import kael
from server import Generator, generation_fields, load_app
from server.answer import Answer
from server.errors import RequestError
from server.request import SCHEMA, parse


def ask(server, stream, **fields):
    """The text and the further fields of an answer, which both modes must give."""
    answer = server.generate(**{"prompt": "hi", "stream": stream, "details": True, **fields})
    assert answer.status == 200, answer.body
    if not stream:
        return answer.json["text"], answer.json
    *events, details, done = answer.events
    assert done is None
    logprobs = [entry for event in events for entry in event.get("logprobs", ())]
    return "".join(event["text"] for event in events), {**details, "logprobs": logprobs}


modes = pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])


# ---- stop


@modes
@pytest.mark.parametrize(
    ("stop", "text"),
    [
        ("lo w", "hel"),
        (["xyz", "w", "lo"], "hel"),
        (["hello world!!"], "hello world!"),
        ([], "hello world!"),
        ("h", ""),
        (["ld!", "ld"], "hello wor"),
    ],
)
def test_the_text_ends_before_a_stop_string(serve, stream, stop, text):  # B013, B023, B025, B026
    server = serve(Sequence(b"hello world!"))
    found, details = ask(server, stream, stop=stop)
    assert found == text
    assert details["finish_reason"] == "stop"
    assert server.counts() == {"ok": 1}


@modes
def test_tokens_count_up_to_the_one_that_completes_the_stop_string(serve, stream):
    server = serve(Sequence(b"hello world!"))
    _, details = ask(server, stream, stop="lo w")
    assert details["usage"]["completion_tokens"] == len("hello w")


@modes
def test_a_stop_string_ends_the_generation(serve, stream):
    model = EndlessModel()
    server = serve(model)
    text, details = ask(server, stream, stop="xxx", max_tokens=512)
    assert (text, details["finish_reason"], details["usage"]["completion_tokens"]) == ("", "stop", 3)
    assert server.is_free()


def test_no_part_of_a_stop_string_is_sent_before_it_is_certain(serve):  # B023, B028
    model = Paced()
    server = serve(model)
    client = server.begin(stream=True, max_tokens=6, stop=["bcX", "def"])
    model.step(6)
    answer = read_response(client)
    assert answer.events == [{"text": "a"}, {"text": "bc"}, None]


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text("ab\N{EURO SIGN}", min_size=1, max_size=10),
    stop=st.lists(st.text("ab\N{EURO SIGN}", min_size=1, max_size=3), max_size=3),
)
def test_both_modes_give_the_same_text_with_stop_strings(server, text, stop):
    server.generator.model = Sequence(text.encode())
    plain, _ = ask(server, False, stop=stop, max_tokens=40)
    assert ask(server, True, stop=stop, max_tokens=40)[0] == plain
    assert not any(word in plain for word in stop)


# ---- echo


@modes
def test_echo_begins_the_text_with_the_prompt(serve, stream):
    server = serve(Sequence(b"lo"))
    text, details = ask(server, stream, prompt="hel\N{EURO SIGN} ", echo=True)
    assert text == "hel\N{EURO SIGN} lo"
    assert details["usage"]["completion_tokens"] == 2


@modes
def test_a_stop_string_in_the_prompt_is_not_one_in_the_text(serve, stream):
    server = serve(Sequence(b"abcd"))
    assert ask(server, stream, prompt="xcy", echo=True, stop="c")[0] == "xcyab"


# ---- timeout_s


@modes
@pytest.mark.parametrize("model", [EndlessModel, EndlessRing])
def test_a_timeout_ends_the_text_with_what_there_is(serve, stream, model):
    server = serve(model(0.01))
    started = time.monotonic()
    text, details = ask(server, stream, timeout_s=0.2, max_tokens=512)
    assert 0.15 < time.monotonic() - started < 10
    assert details["finish_reason"] == "timeout"
    assert text == "x" * details["usage"]["completion_tokens"]
    assert server.counts() == {"ok": 1}
    server.wait_until_free()


def test_a_text_that_is_done_in_time_has_no_timeout(serve):
    server = serve(Sequence(b"abc"))
    assert ask(server, False, timeout_s=5)[1]["finish_reason"] == "stop"
    assert ask(server, False, timeout_s=5, max_tokens=2)[1]["finish_reason"] == "length"


def test_the_time_in_which_the_prompt_is_encoded_counts(serve):
    server = serve(EndlessModel(0.01), SlowTokenizer(seconds=0.7))
    details = ask(server, False, timeout_s=0.7, max_tokens=512)[1]
    assert details["finish_reason"] == "timeout"
    assert details["seconds"] < 0.5  # of the generation, which comes after that


def test_a_text_that_was_whole_when_its_time_was_over_is_whole():
    request = parse(b'{"prompt": "a", "max_tokens": 2}')
    answer = Answer(Generator(Echo(), Bytes()), request, [97], 0.0)
    answer.feed([98])
    answer.time_out()
    assert answer.finish_reason == "timeout"
    answer.feed([99])
    assert answer.finish_reason == "length"


def test_a_timeout_belongs_to_its_request(serve):
    model = EndlessModel(0.005)
    server = serve(model)
    assert ask(server, False, timeout_s=0.05, max_tokens=512)[1]["finish_reason"] == "timeout"
    client = server.begin(max_tokens=512)
    wait_for(lambda: server.received > 60)
    client.close()
    server.wait_until_free()


# ---- Sampling

STEERED = {
    "temperature": 0.9,
    "top_k": 0,
    "top_p": 0.9,
    "min_p": 0.01,
    "repetition_penalty": 1.1,
    "presence_penalty": 0.5,
    "frequency_penalty": 0.25,
    "seed": 7,
}


def test_only_what_is_used_reaches_the_model(serve):
    model = Recorder()
    server = serve(model)
    neutral = {"top_p": 1, "min_p": 0, "repetition_penalty": 1, "logit_bias": {}, "stop": [], "echo": False}
    server.generate("a", max_tokens=1, **neutral)
    server.generate("a", max_tokens=1, logit_bias={"5": -3}, **STEERED)
    assert model.calls[0] == {"prompt": [97], "max_tokens": 1, "temperature": 0.8, "top_k": 40}
    assert model.calls[1] == {"prompt": [97], "max_tokens": 1, "logit_bias": {5: -3.0}, **STEERED}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return load_app(server_checkpoint.write(tmp_path_factory.mktemp("checkpoint")), "cpu").generator


@pytest.fixture
def real(loaded):
    """A server of a small checkpoint, one token a byte."""
    server = Server(Generator(loaded.model, loaded.tokenizer, context=loaded.context))
    yield server
    server.close()
    server.close_clients()


@modes
def test_a_seed_gives_the_librarys_text_on_any_number_of_threads(real, loaded, stream):  # B103, B106, B107
    prompt = loaded.tokenizer.encode("hello")
    expected = loaded.model.generate(prompt, 60, logit_bias={7: 2.0}, **STEERED)
    threads = kael.get_num_threads()
    try:
        for count in (1, 3):
            kael.set_num_threads(count)
            text, details = ask(real, stream, prompt="hello", max_tokens=60, logit_bias={"7": 2}, **STEERED)
            assert text == loaded.tokenizer.decode(expected).decode(errors="replace")
            assert details["seed"] == 7
    finally:
        kael.set_num_threads(threads)


@modes
def test_a_repeated_request_does_not_depend_on_what_came_before(real, stream):  # B104
    first = ask(real, stream, prompt="hello", max_tokens=30, temperature=0)[0]
    ask(real, stream, prompt="hello there", max_tokens=30, temperature=2, seed=1)
    assert ask(real, stream, prompt="hello", max_tokens=30, temperature=0)[0] == first


@pytest.mark.parametrize("token", ["257", "191222", "9999999999"])  # B094, B097
def test_a_bias_of_an_id_that_the_model_lacks_is_refused(real, token):
    answer = real.generate("a", logit_bias={token: -100})
    assert answer.status == 422
    assert answer.json["details"] == [
        {"field": "/logit_bias", "rule": "vocabulary", "message": "must have token ids of at most 256"}
    ]
    assert real.is_free()


# ---- logprobs


@modes
@pytest.mark.parametrize("top", [0, 3])
def test_logprobs_are_the_models_own(real, loaded, stream, top):
    text, details = ask(
        real, stream, prompt="hello", max_tokens=12, logprobs=top, temperature=2, top_k=0, seed=3
    )
    entries = details["logprobs"]
    ids = [entry["token"] for entry in entries]
    assert b"".join(bytes(entry["bytes"]) for entry in entries).decode(errors="replace") == text
    prompt = loaded.tokenizer.encode("hello")
    logits = loaded.model(prompt + ids).numpy().astype(np.float64)[len(prompt) - 1 : -1]
    expected = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    for row, entry in zip(expected, entries, strict=True):
        assert entry["logprob"] == pytest.approx(row[entry["token"]], abs=1e-9)
        assert [other["token"] for other in entry["top"]] == np.argsort(-row, kind="stable")[:top].tolist()
        assert [other["logprob"] for other in entry["top"]] == pytest.approx(np.sort(row)[::-1][:top])


@modes
def test_with_echo_the_prompt_has_logprobs_too(real, loaded, stream):
    text, details = ask(real, stream, prompt="hello", max_tokens=2, logprobs=1, echo=True, seed=1)
    entries = details["logprobs"]
    assert text.startswith("hello")
    assert [entry["token"] for entry in entries[:5]] == loaded.tokenizer.encode("hello")
    assert entries[0]["logprob"] is None
    assert entries[0]["top"] == []
    logits = loaded.model(loaded.tokenizer.encode("hello")).numpy().astype(np.float64)
    expected = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    for row, entry in itertools.pairwise(zip(expected, entries[:5], strict=True)):
        assert entry[1]["logprob"] == pytest.approx(row[0][entry[1]["token"]], abs=1e-9)


@modes
def test_logprobs_belong_to_the_text_before_a_stop_string(real, stream):
    whole, _ = ask(real, stream, prompt="hello", max_tokens=40, temperature=0)
    stop = whole[10:12]
    text, details = ask(real, stream, prompt="hello", max_tokens=40, temperature=0, stop=stop, logprobs=0)
    assert text == whole[: whole.find(stop)]
    assert b"".join(bytes(entry["bytes"]) for entry in details["logprobs"]).decode(errors="replace") == text


def test_each_event_has_the_logprobs_of_its_own_text(real):
    answer = real.generate("hello", max_tokens=30, stream=True, logprobs=0, top_k=0, temperature=3, seed=2)
    for event in answer.events[:-1]:
        data = b"".join(bytes(entry["bytes"]) for entry in event["logprobs"])
        assert data.decode(errors="replace") == event["text"]


def test_a_prompt_that_was_not_read_to_its_end_has_no_logprobs(serve):
    class Stopped(EndlessRing):
        def generate_into(self, ring, prompt, max_tokens, *, logprobs, **options):
            return super().generate_into(ring, prompt, 0, **options)

    server = serve(Stopped())
    answer = server.generate("abc", logprobs=1, echo=True, timeout_s=0.05)
    assert answer.json["text"] == "abc"
    assert [entry["logprob"] for entry in answer.json["logprobs"]] == [None] * 3


@pytest.mark.parametrize(
    "fields",
    [
        {"prompt": "ab", "max_tokens": 2, "logprobs": 2},
        {"prompt": "ab", "max_tokens": 2, "logprobs": 2, "stream": True},
        {"prompt": "ab", "max_tokens": 0, "logprobs": 2, "echo": True},
        {"prompt": "ab", "max_tokens": 0, "logprobs": 2, "echo": True, "stream": True},
    ],
)
def test_the_loop_goes_on_while_logprobs_are_written_out(serve, fields):
    class Slow(Bytes):
        """Waits, where it is asked from the loop's thread or another."""

        def __init__(self):
            self.asked, self.released = threading.Event(), threading.Event()

        def decode(self, ids):
            self.asked.set()
            self.released.wait(LONGER)
            return super().decode(ids)

    kael.manual_seed(0)
    model = kael.GPT(vocab_size=256, max_positions=64, layers=1, heads=2, dimension=16)
    tokenizer = Slow()
    server = serve(model, tokenizer, context=64)
    client = server.connect()
    client.sendall(message(fields, path="/v1/completions"))
    assert tokenizer.asked.wait(20)
    assert server.get("/health").status == 200
    tokenizer.released.set()
    assert read_response(client).status == 200


def test_logprobs_of_a_model_without_them_are_refused(serve):
    server = serve(Recorder())
    answer = server.generate("a", logprobs=1)
    assert answer.status == 422
    assert answer.json["details"] == [
        {"field": "/logprobs", "rule": "unsupported", "message": "is not supported by this model"}
    ]
    assert server.is_free()


@modes
def test_a_logarithm_of_nothing_is_null(serve, stream):  # B098
    kael.manual_seed(0)
    size = {"vocab_size": 256, "max_positions": 64, "layers": 1, "heads": 2, "dimension": 16}
    model = kael.GPT(**size, tie_word_embeddings=False)
    parameters = model.train().named_parameters()
    parameters["ln_f.bias"].detach().numpy()[0] = 3e38
    parameters["lm_head.weight"].detach().numpy()[5, 0] = -3e38  # a logit of minus infinity
    server = serve(model, Bytes(), context=64)
    _, details = ask(server, stream, prompt="a\x05", max_tokens=1, logprobs=0, echo=True)
    assert details["logprobs"][1]["token"] == 5
    assert details["logprobs"][1]["logprob"] is None


@pytest.mark.parametrize("field", ["seed", "top_p", "logit_bias"])
def test_a_field_that_the_model_does_not_know_is_refused_where_it_is_used(serve, field):
    server = serve(Sequence(b"abc"))
    value = {"seed": 3, "top_p": 0.5, "logit_bias": {"1": 2}}[field]
    answer = server.generate("a", **{field: value})
    assert answer.status == 422
    assert answer.json["details"] == [
        {"field": f"/{field}", "rule": "unsupported", "message": "is not supported by this model"}
    ]
    assert server.is_free()
    assert server.generate("a", top_p=1, logit_bias={}).json["text"] == "abc"


# ---- Limits


@pytest.mark.parametrize(
    ("fields", "details"),
    [
        ({"top_p": 2.0}, ("/top_p", "maximum", 1)),  # B083
        ({"top_p": -1}, ("/top_p", "minimum", 0)),  # B082
        ({"min_p": 1.01}, ("/min_p", "maximum", 1)),
        ({"repetition_penalty": 0}, ("/repetition_penalty", "minimum", 0.01)),  # B082
        ({"repetition_penalty": 11}, ("/repetition_penalty", "maximum", 10)),
        ({"presence_penalty": -2.5}, ("/presence_penalty", "minimum", -2)),
        ({"frequency_penalty": 3}, ("/frequency_penalty", "maximum", 2)),
        ({"logprobs": 21}, ("/logprobs", "maximum", 20)),
        ({"logprobs": -1}, ("/logprobs", "minimum", 0)),
        ({"ping_s": -1}, ("/ping_s", "minimum", 0)),
        ({"ping_s": 3601}, ("/ping_s", "maximum", 3600)),
        ({"timeout_s": 0}, ("/timeout_s", "exclusiveMinimum", 0)),
        ({"timeout_s": 1e9}, ("/timeout_s", "maximum", 3600)),
        ({"stop": ""}, ("/stop", "minLength", 1)),
        ({"stop": ["a", ""]}, ("/stop/1", "minLength", 1)),
        ({"stop": "x" * 201}, ("/stop", "maxLength", 200)),
        ({"stop": ["a"] * 17}, ("/stop", "maxItems", 16)),
        ({"logit_bias": {"5": 101}}, ("/logit_bias", "maximum", 100)),
        ({"logit_bias": {str(number): 1 for number in range(1025)}}, ("/logit_bias", "maxProperties", 1024)),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_a_value_beyond_its_limit_is_refused_with_it(fields, details):
    with pytest.raises(RequestError) as caught:
        parse(json.dumps({"prompt": "a", **fields}).encode())
    (detail,) = caught.value.body["details"]
    assert (detail["field"], detail["rule"], detail["limit"]) == details


@pytest.mark.parametrize(
    ("fields", "field", "message"),
    [
        ({"stop": 5}, "/stop", "must be a string or an array"),
        ({"stop": [5]}, "/stop/0", "must be a string"),
        ({"logit_bias": [1]}, "/logit_bias", "must be a JSON object"),
        ({"logit_bias": {"the": 1}}, "/logit_bias", "must have token ids for names"),
        ({"logit_bias": {"-1": 1}}, "/logit_bias", "must have token ids for names"),
        ({"logit_bias": {"007": 1}}, "/logit_bias", "must have token ids for names"),
        ({"logit_bias": {"5": "1"}}, "/logit_bias", "must be a number"),
        ({"logprobs": True}, "/logprobs", "must be a whole number"),
        ({"echo": "yes"}, "/echo", "must be true or false"),
        ({"ping_s": 0.5}, "/ping_s", "must be a whole number"),
        ({"timeout_s": "1"}, "/timeout_s", "must be a number"),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_a_value_of_another_kind_is_refused(fields, field, message):
    with pytest.raises(RequestError) as caught:
        parse(json.dumps({"prompt": "a", **fields}).encode())
    (detail,) = caught.value.body["details"]
    assert (detail["field"], detail["message"]) == (field, message)


def test_the_closed_limits_are_accepted():
    parse(
        json.dumps(
            {
                "prompt": "a",
                "top_p": 0,
                "min_p": 1,
                "repetition_penalty": 0.01,
                "presence_penalty": 2,
                "frequency_penalty": -2,
                "logprobs": 20,
                "timeout_s": 3600,
                "stop": ["x" * 200] * 16,
                "logit_bias": {str(number): -100 for number in range(1024)},
            }
        ).encode()
    )


def test_the_schema_is_a_schema_and_its_defaults_obey_it():
    SCHEMA.check()
    given = {name: rules["default"] for name, rules in SCHEMA.properties.items() if "default" in rules}
    assert parse(json.dumps({**given, "prompt": "a"}).encode()) == parse(b'{"prompt": "a"}')
    assert all(rules["description"] for rules in SCHEMA.properties.values())
    assert SCHEMA.properties["max_tokens"]["maximum"] == generation_fields.MAX_NEW_TOKENS


def test_a_name_in_a_bias_is_never_repeated(server):  # B092, T21
    answer = server.post(
        {"prompt": "a", "logit_bias": {"canary7391": "canary7391"}, "stop": ["canary7391", 5]}
    )
    assert answer.status == 422
    assert b"canary7391" not in answer.body
