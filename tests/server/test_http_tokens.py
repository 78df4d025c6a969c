"""POST /tokenize and POST /detokenize."""

from __future__ import annotations

import json
import threading
from typing import ClassVar

import pytest
import server_checkpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from server_fakes import BrokenDecoder, BrokenTokenizer, Bytes, Echo, EndlessModel, Letters, SlowTokenizer
from server_live import LONGER, Server, reset, wait_for

from server import Generator, load_app
from server.endpoints.tokens import DETOKENIZE_SCHEMA, TOKENIZE_SCHEMA
from server.limits import MAX_PROMPT_CHARACTERS
from server.settings import Settings

# More than an event loop has threads for whatever comes.
MANY_REQUESTS = 40

END = server_checkpoint.END_OF_TEXT


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return load_app(server_checkpoint.write(tmp_path_factory.mktemp("checkpoint")), "cpu").generator


@pytest.fixture
def real(loaded):
    """A server of a small checkpoint, one token a byte."""
    server = Server(Generator(loaded.model, loaded.tokenizer, context=loaded.context), Settings())
    yield server
    server.close()
    server.close_clients()


def ask(server, path, **fields):
    return server.request("POST", path, json.dumps(fields).encode())


def test_a_text_becomes_its_ids_and_back(real, loaded):
    text = "hello \N{EURO SIGN}"
    answer = ask(real, "/tokenize", text=text).json
    assert answer == {"tokens": loaded.tokenizer.encode(text), "count": 9}
    assert ask(real, "/detokenize", tokens=answer["tokens"]).json == {"text": text}


def test_pieces_have_exact_bytes(real):
    pieces = ask(real, "/tokenize", text="a\N{LATIN SMALL LETTER N WITH TILDE}", pieces=True).json["pieces"]
    assert [piece["bytes"] for piece in pieces] == [[0x61], [0xC3], [0xB1]]
    assert [piece["text"] for piece in pieces] == ["a", "\ufffd", "\ufffd"]
    tokens = [piece["token"] for piece in pieces]
    answer = ask(real, "/detokenize", tokens=tokens, pieces=True).json
    assert answer == {"text": "a\N{LATIN SMALL LETTER N WITH TILDE}", "pieces": pieces}


def test_the_end_of_text_is_plain_text_unless_asked_for(real):  # B029, B032
    assert END not in ask(real, "/tokenize", text="<|endoftext|>").json["tokens"]
    assert ask(real, "/tokenize", text="<|endoftext|>", allow_special=True).json["tokens"] == [END]
    assert ask(real, "/detokenize", tokens=[END]).json["text"] == "<|endoftext|>"


@pytest.mark.parametrize("path", ["/generate", "/v1/completions"])
@pytest.mark.parametrize("special", [False, True])
def test_a_prompt_is_read_as_tokenize_shows_it(real, path, special):  # B032
    text = "a<|endoftext|>b"
    shown = ask(real, "/tokenize", text=text, allow_special=special).json["count"]
    answer = ask(real, path, prompt=text, allow_special=special, max_tokens=1)
    assert answer.json["usage"]["prompt_tokens"] == shown == (3 if special else 15)


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(max_size=30), special=st.booleans())
def test_every_text_comes_back(real, text, special):
    answer = ask(real, "/tokenize", text=text, allow_special=special)
    assert ask(real, "/detokenize", tokens=answer.json["tokens"]).json["text"] == text


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(tokens=st.lists(st.integers(0, 256), max_size=30))
def test_any_ids_have_the_text_of_their_bytes(real, loaded, tokens):
    answer = ask(real, "/detokenize", tokens=tokens, pieces=True).json
    assert answer["text"] == loaded.tokenizer.decode(tokens).decode(errors="replace")
    assert b"".join(bytes(piece["bytes"]) for piece in answer["pieces"]) == loaded.tokenizer.decode(tokens)


def test_nothing_is_nothing(real):
    assert ask(real, "/tokenize", text="").json == {"tokens": [], "count": 0}
    assert ask(real, "/detokenize", tokens=[]).json == {"text": ""}


@pytest.mark.parametrize(
    ("path", "fields", "detail"),
    [
        ("/tokenize", {}, {"field": "/text", "rule": "required", "message": "is required"}),
        ("/tokenize", {"text": 5}, {"field": "/text", "rule": "type", "message": "must be a string"}),
        (
            "/tokenize",
            {"text": "x" * (MAX_PROMPT_CHARACTERS + 1)},
            {
                "field": "/text",
                "rule": "maxLength",
                "limit": 8192,
                "message": "must have at most 8192 characters",
            },
        ),
        ("/detokenize", {"tokens": "5"}, {"field": "/tokens", "rule": "type", "message": "must be an array"}),
        (
            "/detokenize",
            {"tokens": [1, 257]},
            {"field": "/tokens", "rule": "vocabulary", "message": "must have token ids of at most 256"},
        ),
        (
            "/detokenize",
            {"tokens": [1, -1]},
            {"field": "/tokens/1", "rule": "minimum", "limit": 0, "message": "must be at least 0"},
        ),
        (
            "/detokenize",
            {"tokens": [2**64]},  # B097
            {
                "field": "/tokens/0",
                "rule": "maximum",
                "limit": 2147483647,
                "message": "must be at most 2147483647",
            },
        ),
    ],
)
def test_what_is_wrong_is_refused_by_name(real, path, fields, detail):
    answer = ask(real, path, **fields)
    assert answer.status == 422
    assert answer.json["details"] == [detail]
    assert answer.json["request_id"] == answer.headers["X-Request-Id"]


def test_a_body_that_is_too_large_is_refused(real):
    assert real.request("POST", "/tokenize", b" " * 60_000).status == 413


def test_text_that_the_vocabulary_lacks_is_refused(serve):
    answer = ask(serve(Echo(), Letters()), "/tokenize", text="a b")
    assert answer.status == 422
    assert answer.json["details"][0]["rule"] == "vocabulary"


@pytest.mark.parametrize(
    ("tokenizer", "path", "fields"),
    [
        (BrokenTokenizer(), "/tokenize", {"text": "a"}),
        (BrokenDecoder(), "/detokenize", {"tokens": [1]}),
    ],
)
def test_a_failure_is_500_without_its_detail(serve, caplog, tokenizer, path, fields):
    server = serve(Echo(), tokenizer)
    answer = ask(server, path, **fields)
    assert (answer.status, answer.json) == (500, {"error": "generation failed"})
    assert "secret detail" in caplog.text


def test_it_needs_no_slot(serve):
    model = EndlessModel()
    server = serve(model)
    running = server.begin(max_tokens=512)
    assert model.started.wait(20)
    assert ask(server, "/tokenize", text="ab").json["tokens"] == [97, 98]
    assert ask(server, "/detokenize", tokens=[97, 98]).json["text"] == "ab"
    assert server.counts() == {}
    running.close()
    server.wait_until_free()


def test_the_loop_answers_while_a_text_is_encoded(serve):
    tokenizer = SlowTokenizer(LONGER)
    server = serve(Echo(), tokenizer)
    answers = []
    asking = threading.Thread(target=lambda: answers.append(ask(server, "/tokenize", text="ab")))
    asking.start()
    assert tokenizer.started.wait(20)
    assert server.get("/health").status == 200
    tokenizer.released.set()
    asking.join(20)
    assert answers[0].json["tokens"] == [97, 98]


def test_a_generation_does_not_wait_for_those_who_ask_about_tokens(serve):
    class SlowText(Bytes):
        def __init__(self):
            self.released = threading.Event()

        def encode(self, text):
            if text == "slow":
                self.released.wait(LONGER)
            return super().encode(text)

    tokenizer = SlowText()
    server = serve(Echo(), tokenizer)
    asking = [
        threading.Thread(target=lambda: ask(server, "/tokenize", text="slow")) for _ in range(MANY_REQUESTS)
    ]
    for thread in asking:
        thread.start()
    assert server.generate("hi", max_tokens=2).json["text"] == "hi"
    tokenizer.released.set()
    for thread in asking:
        thread.join(20)


def test_nothing_is_encoded_for_a_client_that_has_left(serve):  # B044
    class Counting(SlowTokenizer):
        texts: ClassVar[list[str]] = []

        def encode(self, text):
            self.texts.append(text)
            return super().encode(text)

    tokenizer = Counting(20)
    server = serve(Echo(), tokenizer)
    first = threading.Thread(target=lambda: ask(server, "/tokenize", text="first"))
    first.start()
    assert tokenizer.started.wait(20)
    client = server.connect()
    body = b'{"text": "second"}'
    client.sendall(b"POST /tokenize HTTP/1.1\r\nHost: test\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    wait_for(lambda: server.app.slotless_thread._work_queue.qsize() == 1)
    reset(client)
    wait_for(lambda: len(server.http_server._connections) == 1)
    tokenizer.released.set()
    first.join(20)
    assert ask(server, "/tokenize", text="third").status == 200
    assert tokenizer.texts == ["first", "third"]


def test_a_server_that_ends_refuses(serve):
    server = serve(Echo())
    server.generator.shutting_down.set()
    answer = ask(server, "/tokenize", text="a")
    assert answer.status == 503
    assert answer.headers["Connection"] == "close"


def test_a_tokenizer_need_not_know_special_tokens(serve):
    class Plain(Bytes):
        def encode(self, text):
            return list(text.encode())

    assert ask(serve(Echo(), Plain()), "/tokenize", text="a").json["tokens"] == [97]


@pytest.mark.parametrize("schema", [TOKENIZE_SCHEMA, DETOKENIZE_SCHEMA])
def test_the_schemas_are_schemas(schema):
    schema.check()
    assert all(rules["description"] for rules in schema.properties.values())
