"""One generation at a time."""

from __future__ import annotations

import concurrent.futures
import json
import threading
import time

import pytest
from server_fakes import (
    Bytes,
    Echo,
    EndlessModel,
    EndlessRing,
    Fat,
    Paced,
    RingEcho,
    Sequence,
    SlowTokenizer,
)
from server_live import message, read_response, read_until, wait_for
from tornado.web import RequestHandler

from server import Generator
from server.errors import RequestError
from server.request import parse


def test_only_one_generation_runs_at_a_time(serve):
    model = Paced()
    server = serve(model)
    with concurrent.futures.ThreadPoolExecutor(8) as clients:
        answers = [clients.submit(server.generate, max_tokens=4) for _ in range(8)]
        wait_for(lambda: server.count("busy") == 7)
        assert server.generator.metrics.in_flight == 1
        model.step(4)
    assert sorted(answer.result().status for answer in answers) == [200] + [429] * 7
    assert server.counts() == {"ok": 1, "busy": 7}


def test_an_exhausted_server_answers_429_and_recovers(serve):  # B077, B079
    model = Paced()
    server = serve(model)
    first = server.begin(max_tokens=2)
    wait_for(lambda: not server.is_free())
    for stream in (False, True):
        refused = server.generate(stream=stream)
        assert refused.status == 429
        assert refused.json == {"error": "the model is busy"}
        assert refused.headers["Retry-After"] == "1"
        assert refused.headers["X-Request-Id"]
    model.step(2)
    assert read_response(first).status == 200
    first.close()
    model.step(1)
    assert server.generate(max_tokens=1).status == 200


def test_retry_after_is_what_the_running_generation_is_expected_to_take(serve):
    server = serve(EndlessModel(seconds=0.02))
    client = server.begin(max_tokens=512, stream=True)
    read_until(client, b"data: ")
    wait_for(lambda: server.received > 10)
    seconds = int(server.generate().headers["Retry-After"])
    assert 8 <= seconds <= 60  # 512 tokens at 20 ms and more
    client.close()
    server.wait_until_free()


def test_nobody_is_asked_to_wait_longer_than_a_minute(serve):
    server = serve(EndlessModel(seconds=0.15))
    client = server.begin(max_tokens=512)
    wait_for(lambda: server.received > 1)
    assert server.generate().headers["Retry-After"] == "60"  # 512 tokens take 77 s and more
    client.close()
    server.wait_until_free()


def test_a_generation_that_has_ended_is_not_waited_for(serve):
    server = serve(Sequence(b"abc", seconds=0.02), SlowTokenizer(seconds=0))
    assert server.generate(max_tokens=512).json["tokens"] == 3
    server.generator.tokenizer = SlowTokenizer(seconds=20)
    client = server.begin()
    assert server.generator.tokenizer.started.wait(20)
    assert server.generate().headers["Retry-After"] == "1"  # not for the 509 tokens that did not come
    server.generator.tokenizer.released.set()
    assert read_response(client).status == 200


def test_a_request_without_max_tokens_ends_by_itself(serve):  # B038
    answer = serve(Echo()).generate()
    assert (answer.json["tokens"], answer.json["finish_reason"]) == (64, "length")


def test_slots_are_released_after_a_stream(serve):
    server = serve(Echo())
    for _ in range(20):  # at once: who has seen the end is not told that the model is busy
        assert server.generate(stream=True, max_tokens=5).status == 200
    assert server.is_free()
    assert server.counts() == {"ok": 20}


def test_the_slot_is_free_when_the_answer_is_there(serve):
    server = serve(Echo())
    for _ in range(100):
        assert server.generate(max_tokens=2).status == 200


@pytest.mark.parametrize("model", [Echo, RingEcho])
def test_only_the_loop_writes_to_clients(serve, model, monkeypatch):  # T15
    writers = set()

    def write(self, data, original=RequestHandler.write):
        writers.add(threading.current_thread().name)
        original(self, data)

    monkeypatch.setattr(RequestHandler, "write", write)
    server = serve(model())
    for stream in (False, True):
        assert server.generate(stream=stream).status == 200
    assert writers == {"server"}


def begin_without_reading(server):
    client = server.connect(receive_buffer=2304)
    client.sendall(message({"prompt": "hi", "stream": True, "max_tokens": 512}))
    return client


def test_metrics_come_before_the_slot_and_the_slot_before_the_end():
    generator = Generator(Echo(), Bytes())
    steps = []

    class Bridge:
        generated = 3
        cached_tokens = None
        guessed_tokens = None
        left_at = None

        def generate(self, model, prompt, max_tokens, **options):
            steps.append(("generate", generator.slot.locked()))

        def end(self, error):
            steps.append(("end", generator.slot.locked()))

    finish = generator.metrics.finish_generation
    generator.metrics.finish_generation = lambda tokens, seconds: (
        steps.append(("metrics", generator.slot.locked())),
        finish(tokens, seconds),
    )
    generator.reserve()
    generator._work([1], parse(b'{"prompt": "a"}'), Bridge())
    assert steps == [("generate", True), ("metrics", True), ("end", False)]


@pytest.mark.parametrize("model", [Echo, RingEcho])
def test_a_client_that_never_reads_the_stream_does_not_keep_its_slot(serve, model):
    server = serve(model(), Fat())
    client = begin_without_reading(server)
    wait_for(lambda: server.sample("kael_request_seconds_count") == 1)
    assert server.sample("kael_generated_tokens_total") == 512  # it ran to its end
    server.wait_until_free()
    assert server.generator.metrics.in_flight == 0
    assert server.counts() == {}  # and is not answered yet
    client.close()
    wait_for(lambda: server.counts() == {"cancelled": 1})


def test_a_stalled_client_is_let_go_in_the_end(serve):  # B059, B061, B062, T10
    server = serve(Echo(), Fat(), stall_seconds=0.1)
    begin_without_reading(server)
    wait_for(lambda: server.counts() == {"cancelled": 1})
    assert server.is_free()


def test_a_stalled_client_has_its_time_after_the_end_of_its_text(serve):
    model = Paced()
    server = serve(model, Fat(), stall_seconds=1)
    client = server.begin(stream=True, max_tokens=300)
    model.step(250)
    wait_for(lambda: server.received == 250)  # more than the system's buffers take
    for tokens in range(251, 300):  # one by one, which takes a part of the time granted
        model.step()
        wait_for(lambda tokens=tokens: server.received == tokens)
    ending = time.monotonic()
    model.step()
    wait_for(lambda: server.counts() == {"cancelled": 1})
    assert time.monotonic() - ending >= 1
    client.close()


def test_a_slow_reader_gets_everything(serve):
    server = serve(Echo(), Fat(), stall_seconds=5)
    client = server.begin("hi", stream=True, max_tokens=300)
    server.wait_until_free()
    answer = read_response(client)
    assert len(answer.text) == 300 * 20_000


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_reads_slowly_is_not_taken_for_a_stalled_one(serve, stream):
    server = serve(Echo(), Fat(), stall_seconds=0.5)
    client = server.connect(receive_buffer=65536)
    client.sendall(message({"prompt": "hi", "max_tokens": 512, "stream": stream}))
    server.wait_until_free()
    read = 0
    while chunk := client.recv(1 << 18):
        read += len(chunk)
        if read >= 512 * 20_000:
            break
        time.sleep(len(chunk) / 10e6)  # all of it takes twice the time in which nothing may be taken
    assert read >= 512 * 20_000


@pytest.mark.parametrize("request_line", ["GET /health", "GET /metrics", "POST /tokenize", "GET /nowhere"])
def test_a_client_that_reads_no_answer_is_let_go(serve, request_line):
    server = serve(Echo(), stall_seconds=0.1)
    client = server.connect(receive_buffer=4096)
    body = json.dumps({"text": "a" * 1000, "pieces": True}) if request_line.startswith("POST") else ""
    asked = f"{request_line} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
    with pytest.raises(ConnectionError):
        client.sendall(asked * (50_000_000 // len(asked)))
    wait_for(lambda: not server.http_server._connections)


def test_the_event_loop_keeps_answering_while_a_prompt_is_encoded(serve):
    server = serve(Echo(), SlowTokenizer(seconds=1.0))
    client = server.begin()
    wait_for(server.generator.tokenizer.started.is_set)
    started = time.monotonic()
    assert server.get("/health").status == 200
    assert server.generate().status == 429
    assert time.monotonic() - started < 0.9
    assert not server.is_free()
    assert read_response(client).status == 200


@pytest.mark.parametrize("kind", [EndlessModel, EndlessRing])
def test_health_answers_while_a_generation_runs(serve, kind):  # B071, B074
    server = serve(kind())
    client = server.begin(stream=True)
    read_until(client, b"data: ")
    for _ in range(20):
        assert server.get("/health").json == {"status": "ok"}
    assert (server.get("/ready").status, server.get("/ready").json) == (200, {"status": "ready"})
    client.close()
    server.wait_until_free()


def test_the_slot_is_of_use_without_a_server():
    generator = Generator(Echo(), Bytes(), device="cpu", context=64)
    generator.reserve()
    assert generator.slot.locked()
    assert generator.metrics.in_flight == 1
    with pytest.raises(RequestError) as caught:
        generator.reserve()
    assert caught.value.status == 429
    generator.release()
    assert not generator.slot.locked()
    assert generator.metrics.in_flight == 0


def test_a_worker_that_cannot_start_frees_the_slot(serve, monkeypatch):
    server = serve(Echo())

    def start(self, original=threading.Thread.start):
        if self.name == "kael-generate":
            raise RuntimeError("can't start new thread")
        original(self)

    monkeypatch.setattr(threading.Thread, "start", start)
    assert server.generate().status == 500
    assert server.is_free()
    assert server.generator.metrics.in_flight == 0
    monkeypatch.undo()
    assert server.generate().status == 200
