"""POST /v1/completions and GET /v1/models, as clients of OpenAI's API use them."""

from __future__ import annotations

import json

import numpy as np
import pytest
import server_checkpoint
from server_fakes import Broken, Bytes, Echo, EndlessModel, Recorder, Sequence
from server_live import Server, read_response, wait_for

import kael
from server import Generator, load_app
from server.endpoints.completions import SCHEMA
from server.settings import Settings


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return load_app(server_checkpoint.write(tmp_path_factory.mktemp("models") / "tiny"), "cpu").generator


@pytest.fixture
def real(loaded):
    """A server of a small checkpoint, one token a byte."""
    server = Server(
        Generator(loaded.model, loaded.tokenizer, context=loaded.context, name=loaded.name), Settings()
    )
    yield server
    server.close()
    server.close_clients()


@pytest.fixture
def client(real):
    """The official client of a real server."""
    openai = pytest.importorskip("openai", reason="openai, the official client, is not installed")
    with openai.OpenAI(base_url=f"http://127.0.0.1:{real.port}/v1", api_key="none", max_retries=0) as client:
        yield client


def complete(server, prompt="hi", **fields):
    body = json.dumps({"prompt": prompt, **fields}).encode()
    return server.request("POST", "/v1/completions", body)


def message(**fields):
    """The bytes of a request, for a client that is a socket."""
    body = json.dumps({"prompt": "a", **fields}).encode()
    return (
        f"POST /v1/completions HTTP/1.1\r\nHost: test\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
    )


def text_of(answer):
    return answer.json["choices"][0]["text"]


# ---- The form


def test_the_whole_answer_has_openais_form(serve):
    answer = complete(serve(Sequence(b"hello")), max_tokens=3)
    assert answer.status == 200
    body = answer.json
    assert body.pop("created") > 1_700_000_000
    assert body == {
        "id": f"cmpl-{answer.headers['X-Request-Id']}",
        "object": "text_completion",
        "model": "kael",
        "system_fingerprint": f"kael-{kael.__version__}",
        "choices": [{"text": "hel", "index": 0, "logprobs": None, "finish_reason": "length"}],
        "usage": {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5},
    }


def test_a_stream_ends_with_the_reason_in_an_event_of_its_own(serve):  # B011
    answer = complete(serve(Sequence(b"ab")), stream=True, max_tokens=2)
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["X-Accel-Buffering"] == "no"  # B005
    *chunks, done = answer.events
    assert done is None
    assert [chunk["choices"][0]["text"] for chunk in chunks] == ["a", "b", ""]
    assert [chunk["choices"][0]["finish_reason"] for chunk in chunks] == [None, None, "length"]
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert all("usage" not in chunk for chunk in chunks)


def test_usage_comes_in_the_last_event_on_request(serve):
    fields = {"stream": True, "stream_options": {"include_usage": True}}
    *chunks, last, done = complete(serve(Sequence(b"ab")), max_tokens=2, **fields).events
    assert done is None
    assert all(chunk["usage"] is None for chunk in chunks)
    assert last["choices"] == []
    assert last["usage"] == {"prompt_tokens": 2, "completion_tokens": 2, "total_tokens": 4}


def test_defaults_are_those_of_openai(serve):
    model = Recorder()
    complete(serve(model), "a")
    assert model.calls == [{"prompt": [97], "max_tokens": 16, "temperature": 1.0, "top_k": 0}]


def test_every_sampling_field_reaches_the_model(serve):
    model = Recorder()
    fields = {
        "temperature": 0.5,
        "top_k": 7,
        "top_p": 0.9,
        "min_p": 0.1,
        "repetition_penalty": 1.2,
        "presence_penalty": 1.0,
        "frequency_penalty": -1.0,
        "seed": 3,
    }
    complete(serve(model), "a", max_tokens=1, logit_bias={"5": 1}, stop_at_eos=False, **fields)
    assert model.calls == [{"prompt": [97], "max_tokens": 1, "logit_bias": {5: 1.0}, **fields}]


@pytest.mark.parametrize("prompt", ["ab", ["ab"], [97, 98], [[97, 98]], [97.0, 98]])
def test_a_prompt_is_a_text_or_its_ids(serve, prompt):
    answer = complete(serve(Echo()), prompt, max_tokens=4, echo=True)
    assert text_of(answer) == "ababab"
    assert answer.json["usage"]["prompt_tokens"] == 2


@pytest.mark.parametrize("stream", [False, True])
def test_the_end_of_text_ends_a_text_by_default(serve, stream):
    server = serve(Sequence(b"ab\0cd"))
    answer = complete(server, stream=stream)
    choices = [event["choices"][0] for event in answer.events[:-1]] if stream else answer.json["choices"]
    assert "".join(choice["text"] for choice in choices) == "ab"
    assert choices[-1]["finish_reason"] == "stop"
    assert text_of(complete(server, stop_at_eos=False, max_tokens=5)) == "ab\0cd"


@pytest.mark.parametrize("stream", [False, True])
def test_stop_strings_work_here_as_well(serve, stream):  # B025
    answer = complete(serve(Sequence(b"one\nUser: two")), stream=stream, stop=["\nUser:"])
    choices = [event["choices"][0] for event in answer.events[:-1]] if stream else answer.json["choices"]
    assert "".join(choice["text"] for choice in choices) == "one"
    assert choices[-1]["finish_reason"] == "stop"


@pytest.mark.parametrize("stream", [False, True])
def test_a_text_that_ran_out_of_time_was_cut(serve, stream):
    answer = complete(serve(EndlessModel(0.01)), stream=stream, timeout_s=0.1, max_tokens=512)
    choice = answer.events[-2]["choices"][0] if stream else answer.json["choices"][0]
    assert choice["finish_reason"] == "length"


def test_no_tokens_are_an_empty_text(serve):
    answer = complete(serve(Sequence(b"")), max_tokens=0, echo=True)
    assert answer.json["choices"][0] == {
        "text": "hi",
        "index": 0,
        "logprobs": None,
        "finish_reason": "length",
    }


# ---- logprobs


def token_of(tokenizer, name):
    """Of a vocabulary of bytes and the end of text."""
    if name.startswith("bytes:"):
        return int(name.removeprefix("bytes:\\x"), 16)
    return ord(name) if len(name) == 1 else tokenizer.end_of_text


def expected_logprobs(loaded, ids):
    logits = loaded.model(ids).numpy().astype(np.float64)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


@pytest.mark.parametrize("stream", [False, True])
def test_logprobs_have_openais_form(real, loaded, stream):
    answer = complete(real, "hello", max_tokens=8, logprobs=2, seed=5, stream=stream, stop_at_eos=False)
    choices = [event["choices"][0] for event in answer.events[:-2]] if stream else answer.json["choices"]
    text = "".join(choice["text"] for choice in choices)
    names, logprobs, tops, offsets = (
        [entry for choice in choices for entry in choice["logprobs"][name]]
        for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset")
    )
    assert len(names) == len(logprobs) == len(tops) == len(offsets) == 8
    assert offsets == sorted(offsets)
    assert all(name == text[offset] for name, offset in zip(names, offsets, strict=True) if len(name) == 1)
    assert all(2 <= len(top) <= 3 for top in tops)
    assert all(top[name] == logprob for name, top, logprob in zip(names, tops, logprobs, strict=True))
    drawn = [token_of(loaded.tokenizer, name) for name in names]
    prompt = loaded.tokenizer.encode("hello")
    rows = expected_logprobs(loaded, [*prompt, *drawn])[len(prompt) - 1 : -1]
    assert logprobs == pytest.approx([row[token] for row, token in zip(rows, drawn, strict=True)], abs=1e-6)


@pytest.mark.parametrize("max_tokens", [0, 2])
def test_echo_gives_the_logprobs_of_the_prompt(real, loaded, max_tokens):
    answer = complete(real, "hello", max_tokens=max_tokens, logprobs=1, echo=True, temperature=0)
    logprobs = answer.json["choices"][0]["logprobs"]
    assert logprobs["tokens"][:5] == list("hello")
    assert logprobs["text_offset"][:5] == [0, 1, 2, 3, 4]
    assert logprobs["token_logprobs"][0] is None
    assert logprobs["top_logprobs"][0] is None
    ids = loaded.tokenizer.encode("hello")
    rows = expected_logprobs(loaded, ids)
    expected = [rows[index - 1][ids[index]] for index in range(1, 5)]
    assert logprobs["token_logprobs"][1:5] == pytest.approx(expected, abs=1e-9)
    assert len(logprobs["tokens"]) == 5 + max_tokens


def test_a_part_of_a_character_is_named_by_its_bytes(real, loaded):
    (first, second) = loaded.tokenizer.encode("\N{LATIN SMALL LETTER N WITH TILDE}")
    answer = complete(real, [first, second], max_tokens=0, logprobs=0, echo=True)
    assert answer.json["choices"][0]["text"] == "\N{LATIN SMALL LETTER N WITH TILDE}"
    assert answer.json["choices"][0]["logprobs"]["tokens"] == ["bytes:\\xc3", "bytes:\\xb1"]


# ---- Errors


@pytest.mark.parametrize(
    ("fields", "param", "message"),
    [
        ({"max_tokens": 513}, "max_tokens", "/max_tokens must be at most 512"),
        ({"n": 2}, "n", "/n must be at most 1"),
        ({"best_of": 2}, "best_of", "/best_of must be at most 1"),
        ({"suffix": "x"}, "suffix", "/suffix is not supported"),
        ({"prompt": []}, "prompt", "/prompt must have 1 or more entries"),
        ({"prompt": ["a", "b"]}, "prompt", "/prompt must be one prompt: a text or an array of token ids"),
        ({"prompt": [1, "b"]}, "prompt", "/prompt must be one prompt: a text or an array of token ids"),
        ({"prompt": [[1], [2]]}, "prompt", "/prompt must be one prompt: a text or an array of token ids"),
        ({"prompt": [-1]}, "prompt", "/prompt/0 must be at least 0"),
        ({"prompt": [True]}, "prompt", "/prompt/0 must be a whole number or a string or an array"),
        ({"prompt": [5279552648203111001]}, "prompt", "/prompt/0 must be at most 2147483647"),  # B097
        ({"prompt": [191222]}, "prompt", "/prompt must have token ids of at most 256"),  # B095
        ({"stream_options": {"include_usage": "yes"}}, "stream_options", "must be true or false"),
        ({"temperature": "hot"}, "temperature", "/temperature must be a number"),
    ],
    ids=lambda value: json.dumps(value)[:40],
)
def test_what_is_wrong_is_said_in_openais_form(real, fields, param, message):
    answer = complete(real, **{"prompt": "a", **fields})
    assert answer.status == 422
    error = answer.json["error"]
    assert message in error.pop("message")
    assert error == {"type": "invalid_request_error", "param": param, "code": None}
    assert real.is_free()


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "kind", "code"),
    [
        ("POST", "/v1/completions", b"{", 422, "invalid_request_error", None),
        ("POST", "/v1/completions", b'{"prompt": "a", "x": NaN}', 422, "invalid_request_error", None),
        ("POST", "/v1/completions", b"[]", 422, "invalid_request_error", None),
        ("POST", "/v1/completions", b" " * 60_000, 413, "invalid_request_error", None),
        ("GET", "/v1/completions", None, 405, "invalid_request_error", None),
        ("POST", "/v1/chat/completions", b"{}", 404, "invalid_request_error", None),
        ("GET", "/v1/models/other", None, 404, "invalid_request_error", "model_not_found"),
        ("GET", "/v1/models/%ff", None, 400, "invalid_request_error", None),
        ("DELETE", "/v1/models", None, 405, "invalid_request_error", None),
    ],
)
def test_every_refusal_under_v1_has_openais_form(real, method, path, body, status, kind, code):
    answer = real.request(method, path, body)
    assert answer.status == status
    error = answer.json["error"]
    assert error.pop("message")
    assert error == {"type": kind, "param": None, "code": code}


def test_a_prompt_that_outgrows_the_context_says_so_in_the_clients_words(serve):
    answer = complete(serve(Echo(), context=64), "x" * 60, max_tokens=5)
    assert answer.status == 413
    assert answer.json["error"]["code"] == "context_length_exceeded"
    assert "65" in answer.json["error"]["message"]


def test_a_busy_model_is_a_rate_limit(serve):
    model = EndlessModel()
    server = serve(model)
    running = server.begin(max_tokens=512)
    assert model.started.wait(20)
    answer = complete(server)
    assert (answer.status, answer.json["error"]["type"]) == (429, "rate_limit_error")
    assert int(answer.headers["Retry-After"]) >= 1
    running.close()
    server.wait_until_free()


def test_a_failure_is_a_server_error_without_its_detail(serve):
    server = serve(Broken(tokens=1))
    answer = complete(server)
    assert answer.status == 500
    assert answer.json == {
        "error": {"message": "generation failed", "type": "server_error", "param": None, "code": None}
    }
    events = complete(server, stream=True).events
    assert events[-1] == answer.json
    assert server.counts() == {"error": 2}


def test_a_key_is_asked_for_in_openais_form(serve):
    server = serve(Echo(), api_keys=("secret",))
    answer = complete(server)
    assert (answer.status, answer.json["error"]["code"]) == (401, "invalid_api_key")
    headers = {"Authorization": "Bearer secret"}
    assert server.request("POST", "/v1/completions", b'{"prompt": "a"}', headers).status == 200


def test_a_client_that_leaves_frees_the_slot(serve):  # B043
    server = serve(EndlessModel())
    client = server.connect()
    client.sendall(message(stream=True, max_tokens=500))
    wait_for(lambda: server.received > 2)
    client.close()
    server.wait_until_free()
    wait_for(lambda: server.counts() == {"cancelled": 1})


def test_a_shutdown_ends_a_stream_in_its_form(serve):
    server = serve(EndlessModel(0.01))
    client = server.connect()
    client.sendall(message(stream=True, max_tokens=500))
    wait_for(lambda: server.received > 2)
    assert server.close()
    events = read_response(client).events
    assert events[-1] is None
    assert events[-2]["choices"][0]["finish_reason"] == "length"


# ---- Models


def test_the_one_model_is_listed_and_found(real):
    answer = real.get("/v1/models")
    (model,) = answer.json["data"]
    assert answer.json["object"] == "list"
    assert model == {
        "id": "tiny",
        "object": "model",
        "created": real.generator.created,
        "owned_by": "kael",
    }
    assert real.get("/v1/models/tiny").json == model
    assert complete(real, "a", max_tokens=1).json["model"] == "tiny"


def test_any_name_of_a_model_will_do(serve):
    assert complete(serve(Echo()), model="gpt-3.5-turbo-instruct").json["model"] == "kael"


# ---- The official client


def test_the_official_client_completes(client, loaded):
    completion = client.completions.create(model="tiny", prompt="hello", max_tokens=9, temperature=0)
    ids = loaded.tokenizer.encode("hello")
    end = loaded.tokenizer.end_of_text
    expected = loaded.model.generate(ids, 9, temperature=0, stop_tokens=[end])
    assert completion.choices[0].text == loaded.tokenizer.decode(expected).decode(errors="replace")
    assert completion.choices[0].finish_reason == "length"
    assert completion.usage.completion_tokens == 9


def test_the_official_client_streams(client):
    arguments = {"model": "tiny", "prompt": "hello", "max_tokens": 9, "seed": 3}
    chunks = list(client.completions.create(**arguments, stream=True, stream_options={"include_usage": True}))
    whole = client.completions.create(**arguments)
    assert "".join(chunk.choices[0].text for chunk in chunks[:-1]) == whole.choices[0].text
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert chunks[-1].usage == whole.usage


def test_the_official_client_gets_logprobs_and_echo(client):
    completion = client.completions.create(
        model="tiny", prompt="hello", max_tokens=2, logprobs=3, echo=True, temperature=0
    )
    logprobs = completion.choices[0].logprobs
    assert completion.choices[0].text.startswith("hello")
    assert len(logprobs.tokens) == len(logprobs.token_logprobs) == len(logprobs.text_offset) == 7


def test_the_official_client_sends_token_ids_and_our_own_fields(client, loaded):
    ids = loaded.tokenizer.encode("hello")
    extra = {"top_k": 1, "repetition_penalty": 1.3, "stop_at_eos": False}
    completion = client.completions.create(model="tiny", prompt=ids, max_tokens=5, extra_body=extra)
    expected = loaded.model.generate(ids, 5, top_k=1, repetition_penalty=1.3)
    assert completion.choices[0].text == loaded.tokenizer.decode(expected).decode(errors="replace")


def test_the_official_client_understands_refusals(client):
    import openai

    with pytest.raises(openai.UnprocessableEntityError) as caught:
        client.completions.create(model="tiny", prompt="hello", temperature=99)
    assert caught.value.param == "temperature"
    with pytest.raises(openai.APIStatusError) as caught:
        client.completions.create(model="tiny", prompt="x" * 2000)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(model="tiny", messages=[])


def test_the_official_client_lists_models(client):
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").owned_by == "kael"


def test_the_official_client_notices_an_error_in_a_stream(serve):
    openai = pytest.importorskip("openai", reason="openai, the official client, is not installed")
    server = serve(Broken(tokens=2), Bytes())
    with openai.OpenAI(
        base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0
    ) as client:
        stream = client.completions.create(model="any", prompt="hello", stream=True)
        with pytest.raises(openai.APIError, match="generation failed"):
            list(stream)


def test_the_schema_is_a_schema():
    SCHEMA.check()
    assert all(rules["description"] for rules in SCHEMA.properties.values())
