"""The end of a server, in this process. test_serve_process.py does it with signals."""

from __future__ import annotations

import threading
import time

import pytest
from server_fakes import Deaf, Echo, EndlessModel, EndlessRing, Fat, Paced, SlowTokenizer
from server_live import message, read_response, read_to_end, read_until, wait_for


def close_in_background(server, seconds=5.0):
    thread = threading.Thread(target=server.close, args=(seconds,))
    thread.start()
    wait_for(server.generator.shutting_down.is_set)
    return thread


@pytest.mark.parametrize("model", [EndlessModel, EndlessRing])
def test_shutdown_stops_a_running_generation(serve, model):
    server = serve(model())
    client = server.begin(max_tokens=512)
    wait_for(lambda: server.received > 3)
    assert server.close()
    answer = read_response(client)
    assert answer.status == 200
    assert answer.json["finish_reason"] == "shutdown"
    assert 3 < answer.json["tokens"] == len(answer.json["text"]) < 512
    assert server.counts() == {"cancelled": 1}
    assert server.is_free()


@pytest.mark.parametrize("model", [EndlessModel, EndlessRing])
def test_shutdown_ends_a_stream_with_its_last_events(serve, model):  # B067, B068
    server = serve(model())
    client = server.begin(max_tokens=512, stream=True, details=True)
    read_until(client, b"data: ")
    assert server.close()
    rest = read_to_end(client)
    assert rest.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert b'"finish_reason": "shutdown"' in rest
    assert server.counts() == {"cancelled": 1}


def test_shutdown_without_a_request_is_at_once(serve):
    server = serve(EndlessModel())
    started = time.monotonic()
    assert server.close()
    assert time.monotonic() - started < 2


def test_shutdown_closes_idle_connections(serve):
    server = serve(EndlessModel())
    client = server.connect()
    client.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert read_response(client, "GET").status == 200
    assert server.close()
    assert client.recv(1) == b""


def test_a_kept_connection_is_refused_while_the_server_drains(serve):  # B064, B065, T13, T14
    model = Paced()
    server = serve(model)
    running = server.begin(max_tokens=3)
    kept = server.connect()
    kept.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    assert read_response(kept, "GET").status == 200
    model.step()
    wait_for(lambda: server.received == 1 and model.awaits == 1)
    thread = close_in_background(server)
    wait_for(server.generator.shutting_down.is_set)
    kept.sendall(b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n")
    answer = read_response(kept, "GET")
    assert (answer.status, answer.json) == (503, {"status": "draining"})
    kept.sendall(message({"prompt": "hi"}))
    answer = read_response(kept)
    assert answer.status == 503
    assert answer.headers["Connection"] == "close"
    assert int(answer.headers["Retry-After"]) >= 1
    assert kept.recv(1) == b""
    with pytest.raises(OSError):
        server.connect()
    model.step()  # the running one ends at its next token, and has its answer
    answer = read_response(running)
    assert (answer.status, answer.json["text"], answer.json["finish_reason"]) == (200, "ab", "shutdown")
    thread.join()
    assert server.drained
    assert server.counts() == {"busy": 1, "cancelled": 1}


def test_a_prompt_that_is_being_encoded_is_not_generated_from_any_more(serve):
    server = serve(EndlessModel(), SlowTokenizer(0.3))
    client = server.begin()
    assert server.generator.tokenizer.started.wait(5)
    assert server.close()
    assert read_response(client).status == 503
    assert server.counts() == {"busy": 1}
    assert server.is_free()


def test_those_who_have_asked_about_tokens_are_answered(serve):
    tokenizer = SlowTokenizer(20)
    server = serve(EndlessModel(), tokenizer)
    clients = [server.connect() for _ in range(2)]
    for client in clients:
        client.sendall(message({"text": "ab"}, path="/tokenize"))
    wait_for(lambda: len(server.app.active) == 2)
    thread = close_in_background(server)
    tokenizer.released.set()
    assert [read_response(client).json["tokens"] for client in clients] == [[97, 98]] * 2
    thread.join()
    assert server.drained


@pytest.mark.parametrize("stream", [False, True])
def test_the_client_of_a_worker_that_does_not_come_back_is_told(serve, monkeypatch, stream, caplog):  # B067
    monkeypatch.setattr("server.app._LAST_WORDS_SECONDS", 0.3)
    model = Deaf()
    server = serve(model)
    client = server.begin(stream=stream)
    assert model.started.wait(5)
    assert not server.close(seconds=0.5)
    answer = read_response(client)
    if stream:
        assert answer.events == [{"text": "x"}, {"error": "generation failed"}]
    else:
        assert (answer.status, answer.json) == (500, {"error": "generation failed"})
    assert server.counts() == {"error": 1}
    assert "did not end" in caplog.text
    model.released.set()
    server.wait_until_free()


def test_a_client_that_does_not_read_holds_up_no_shutdown(serve, monkeypatch):
    monkeypatch.setattr("server.app._LAST_WORDS_SECONDS", 1.0)
    server = serve(Echo(), Fat())
    client = server.connect(receive_buffer=2304)
    client.sendall(message({"prompt": "hi", "stream": True, "max_tokens": 512}))
    wait_for(lambda: server.sample("kael_request_seconds_count") == 1)
    server.wait_until_free()
    assert server.close(seconds=1.3)
    assert server.counts() == {"cancelled": 1}


def test_the_worker_thread_is_gone_after_the_end(serve):
    server = serve(EndlessModel())
    server.begin()
    assert server.generator.model.started.wait(5)
    assert server.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "kael-generate"]
