"""Answers, plain and as a stream of events."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from server_fakes import Broken, BrokenDecoder, BrokenTokenizer, Bytes, Echo, Items, Paced, Sequence
from server_live import read_to_end, read_until, wait_for

import kael
from server.bridge import Bridge


def test_stream_does_not_split_multibyte_characters(serve):  # B014, B022
    server = serve(Sequence("ñ€".encode()))
    answer = server.generate(stream=True, max_tokens=5)
    assert answer.events == [{"text": "ñ"}, {"text": "€"}, None]


@pytest.mark.parametrize("cut", range(1, 5))
def test_a_character_that_is_cut_is_replaced_in_both_modes(serve, cut):  # B016
    server = serve(Sequence("a€b".encode()[:cut]))
    plain = server.generate(max_tokens=5).json
    stream = server.generate(max_tokens=5, stream=True)
    assert plain["text"] == "a€b".encode()[:cut].decode(errors="replace")
    assert stream.text == plain["text"]
    assert stream.events[-1] is None


def test_bytes_that_can_never_be_text_are_replaced_at_once(serve):  # B017, B020
    model = Paced()
    server = serve(model, Sequences([b"\xff", b"a", b"\xe2", b"("]))
    client = server.begin(stream=True, max_tokens=4)
    model.step()
    read_until(client, b'data: {"text": "\\ufffd"}\n\n')
    model.step(3)
    rest = read_until(client, b"[DONE]").decode()
    events = "".join(part for part in rest.split("\r\n") if part.startswith("data: "))
    assert events.startswith('data: {"text": "a"}\n\ndata: {"text": "\\ufffd("}\n\n')


class Sequences(Bytes):
    """Gives the n-th id the n-th piece: Paced emits a, b, c..."""

    def __init__(self, pieces):
        self.pieces = pieces

    def decode(self, ids):
        return b"".join(self.pieces[token - ord("a")] for token in ids)


@given(text=st.binary(min_size=1, max_size=64))
@example("é€😀".encode())
@example(b"\xf0\x9f\x98" * 3)
def test_decoding_token_by_token_gives_the_text_of_all_bytes(text):
    stream = kael.TextStream(Bytes())
    assert "".join(map(stream.feed, text)) + stream.end() == text.decode("utf-8", "replace")


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.binary(min_size=1, max_size=40))
def test_stream_and_plain_answer_have_the_same_text(server, text):
    server.generator.model = Sequence(text)
    plain = server.generate(max_tokens=40)
    stream = server.generate(max_tokens=40, stream=True)
    assert stream.text == plain.json["text"]


def test_the_headers_of_a_stream(server):  # B004, B005, B130, T28
    body = json.dumps({"prompt": "hi", "stream": True, "max_tokens": 2})
    answer = server.request("POST", "/generate", body, {"Accept-Encoding": "gzip"})
    assert answer.headers["Content-Type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["X-Accel-Buffering"] == "no"
    assert answer.headers["Content-Encoding"] is None
    assert answer.headers["Content-Length"] is None


def test_a_stream_begins_before_its_first_token(serve):  # B001
    model = Paced()
    server = serve(model)
    client = server.begin(stream=True, max_tokens=1)
    assert read_until(client, b"\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    model.step()
    read_until(client, b"[DONE]")


def test_comments_fill_the_time_in_which_nothing_is_ready(serve):  # B001, B002
    model = Paced()
    server = serve(model, ping_seconds=0.02)
    client = server.begin(stream=True, max_tokens=2)
    read_until(client, b"\r\n\r\n")
    read_until(client, b": ping\n\n")
    model.step()
    read_until(client, b'data: {"text": "a"}\n\n')
    read_until(client, b": ping\n\n")
    model.step()
    rest = read_until(client, b"0\r\n\r\n")
    assert rest.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")


@pytest.mark.parametrize("seconds", [0, 60])
def test_a_stream_has_no_comments_where_none_is_due(serve, seconds, monkeypatch):  # B002
    waits = set()

    def has_more(self, seconds, original=Bridge.has_more):
        waits.add(seconds)
        return original(self, seconds)

    monkeypatch.setattr(Bridge, "has_more", has_more)
    model = Paced()
    server = serve(model, ping_seconds=seconds)
    client = server.begin(stream=True, max_tokens=1)
    read_until(client, b"\r\n\r\n")
    client.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.recv(1)
    client.settimeout(20)
    model.step()
    assert b": ping" not in read_until(client, b"[DONE]")
    assert waits == ({seconds} if seconds else set())


def test_a_request_chooses_when_comments_come(serve):  # B002
    model = Paced()
    client = serve(model, ping_seconds=0).begin(stream=True, max_tokens=1, ping_s=1)
    read_until(client, b": ping\n\n")
    model.step()
    read_until(client, b"[DONE]")


def test_a_request_can_do_without_comments(serve):  # B002
    model = Paced()
    client = serve(model, ping_seconds=0.01).begin(stream=True, max_tokens=1, ping_s=0)
    read_until(client, b"\r\n\r\n")
    client.settimeout(0.05)
    with pytest.raises(TimeoutError):
        client.recv(1)
    client.settimeout(20)
    model.step()
    assert b": ping" not in read_until(client, b"[DONE]")


def test_a_model_that_fails_with_a_timeout_ends_its_stream(serve):
    class TimingOut:
        def generate(self, prompt, max_tokens, temperature, top_k, on_token):
            raise TimeoutError

    server = serve(TimingOut(), ping_seconds=0.01)
    assert server.generate(stream=True).events == [{"error": "generation failed"}]


def test_a_client_that_leaves_between_comments_stops_its_generation(serve):
    model = Paced()
    server = serve(model, ping_seconds=0.01)
    client = server.begin(stream=True)
    read_until(client, b": ping")
    client.close()
    wait_for(lambda: server.counts() == {"cancelled": 1})
    model.step()
    server.wait_until_free()


def test_each_token_is_sent_when_it_is_made(serve):
    model = Paced()
    server = serve(model)
    client = server.begin(stream=True, max_tokens=3)
    for letter in b"ab":
        model.step()
        read_until(client, b'"%c"' % letter)
    model.step()
    rest = read_until(client, b"data: [DONE]\n\n\r\n0\r\n\r\n")  # B007: one end, and a clean one
    assert b'"c"' in rest


@pytest.mark.parametrize("fields", [{"max_tokens": 513}, {"max_tokens": 63}, {"prompt": ""}])
def test_a_stream_that_is_refused_has_a_real_status(server, fields):
    answer = server.generate(**{"stream": True, **fields})
    assert answer.status in (413, 422)
    assert answer.headers["Content-Type"] == "application/json"


def test_an_event_is_one_line_whatever_the_text(serve):
    text = 'a\nb\rc\u2028d\u0085e\x0bf\x00g"\\'
    server = serve(Echo())
    answer = server.generate(text, stream=True, max_tokens=len(text.encode()))
    assert answer.text == text
    assert len(answer.body.decode().splitlines()) == 2 * len(answer.events)


def test_the_plain_answer_begins_with_the_three_fields_of_old(server):
    answer = server.generate("hello", max_tokens=10, temperature=0)
    assert list(answer.json)[:3] == ["text", "tokens", "seconds"]
    assert answer.json["text"] == "hellohello"
    assert answer.json["tokens"] == 10
    assert 0 < answer.json["seconds"] < 20
    assert answer.json["finish_reason"] == "length"  # B010
    assert answer.json["usage"] == {"prompt_tokens": 5, "completion_tokens": 10, "total_tokens": 15}


def test_details_come_in_one_event_and_on_request_only(server):
    silent = server.generate("ab", max_tokens=2, stream=True).events
    assert [sorted(event) for event in silent[:-1]] == [["text"], ["text"]]
    *texts, details, done = server.generate("ab", max_tokens=2, stream=True, details=True).events
    assert texts == [{"text": "a"}, {"text": "b"}]
    assert done is None
    assert sorted(details) == ["finish_reason", "seed", "timings", "usage"]
    assert details["finish_reason"] == "length"
    assert details["usage"]["completion_tokens"] == 2


@pytest.mark.parametrize("stream", [False, True])
def test_the_end_of_text_ends_the_text_on_request(serve, stream):
    server = serve(Sequence(b"ab\0cd"))
    answer = server.generate(stop_at_eos=True, max_tokens=9, stream=stream, details=True)
    details = next(event for event in answer.events if "usage" in event) if stream else answer.json
    assert (answer.text if stream else answer.json["text"]) == "ab"
    assert details["finish_reason"] == "stop"
    assert details["usage"]["completion_tokens"] == 3
    answer = server.generate(max_tokens=5, stream=stream)
    assert (answer.text if stream else answer.json["text"]) == "ab\0cd"


def test_a_token_may_be_anything_with_item(serve):
    server = serve(Items())
    assert server.generate(max_tokens=5).json["text"] == "items"


def test_a_failed_generation_answers_500_and_frees_its_slot(serve, caplog):
    server = serve(Broken(tokens=2))
    answer = server.generate()
    assert answer.status == 500
    assert answer.json == {"error": "generation failed"}
    assert "secret detail" not in str(answer)
    assert "Traceback" in caplog.text
    assert "secret detail" in caplog.text
    assert server.is_free()
    assert server.counts() == {"error": 1}


def test_a_failed_stream_sends_an_error_event_and_frees_its_slot(serve, caplog):  # B008
    server = serve(Broken(tokens=2))
    answer = server.generate(stream=True)
    assert answer.status == 200
    assert answer.events == [{"text": "x"}, {"text": "x"}, {"error": "generation failed"}]
    assert "secret detail" not in str(answer)
    assert answer.headers["X-Request-Id"] in caplog.text
    assert server.is_free()
    assert server.counts() == {"error": 1}


def test_an_encoding_failure_answers_500_and_frees_its_slot(serve):
    server = serve(Echo(), BrokenTokenizer())
    for stream in (False, True):
        answer = server.generate(stream=stream)
        assert (answer.status, answer.json) == (500, {"error": "generation failed"})
    assert server.is_free()
    assert server.generator.metrics.in_flight == 0
    assert server.counts() == {"error": 2}


@pytest.mark.parametrize("stream", [False, True])
def test_a_decoding_failure_ends_the_answer_and_the_generation(serve, stream):
    server = serve(Echo(), BrokenDecoder())
    answer = server.generate(stream=stream)
    assert (answer.events if stream else [answer.json]) == [{"error": "generation failed"}]
    server.wait_until_free()
    assert server.counts() == {"error": 1}


def test_an_empty_generation_is_an_empty_text(serve):  # B034
    server = serve(Sequence(b""))
    assert server.generate().json["text"] == ""
    answer = server.generate(stream=True)
    assert answer.events == [None]
    assert json.loads(server.generate(max_tokens=1).body)["tokens"] == 0
    assert server.is_free()


def test_a_stream_to_an_http_1_0_client_ends_with_its_connection(serve):
    server = serve(Sequence(b"hi"), Bytes())
    client = server.connect()
    body = b'{"prompt": "hi", "max_tokens": 2, "stream": true}'
    head = f"POST /generate HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: {len(body)}\r\n\r\n"
    client.sendall(head.encode() + body)
    assert read_to_end(client).endswith(b"data: [DONE]\n\n")


def test_a_stream_that_fails_ends_for_an_http_1_0_client_too(serve):
    server = serve(Broken(tokens=2))
    client = server.connect()
    body = b'{"prompt": "hi", "max_tokens": 3, "stream": true}'
    head = f"POST /generate HTTP/1.0\r\nConnection: keep-alive\r\nContent-Length: {len(body)}\r\n\r\n"
    client.sendall(head.encode() + body)
    assert read_to_end(client).endswith(b'data: {"error": "generation failed"}\n\n')
