"""Clients that leave: FIN, RST and half-close count, whatever bytes stand before them."""

from __future__ import annotations

import fcntl
import logging
import socket
import struct
import termios
import time

import pytest
from server_fakes import Deaf, Echo, EndlessModel, EndlessRing, Paced, SlowTokenizer
from server_live import message, read_response, read_responses, read_until, reset, wait_for

# A busy machine may need this; a generation that nobody stops needs for ever.
SOON = 5.0


def wait_for_delivery(client):
    """Returns when the server's system has acknowledged all that was sent."""

    def unacknowledged():
        return struct.unpack("i", fcntl.ioctl(client, termios.TIOCOUTQ, bytes(4)))[0]

    wait_for(lambda: unacknowledged() == 0)


def fin(client):
    client.close()


def half_close(client):
    client.shutdown(socket.SHUT_WR)


def trailing(data, leave):
    """The client has sent bytes behind its request, all of them unread by the server."""

    def act(client):
        client.sendall(data)
        wait_for_delivery(client)  # they are there before the end is
        leave(client)

    return act


def in_two_pieces(leave):
    def act(client):
        client.sendall(b"\r\n")
        wait_for_delivery(client)
        client.sendall(b"more")
        wait_for_delivery(client)
        leave(client)

    return act


PIPELINED = message({"prompt": "next"})

WAYS = {
    "fin": fin,
    "rst": reset,
    "half close": half_close,
    "line end, fin": trailing(b"\r\n", fin),  # T02
    "line end, rst": trailing(b"\r\n", reset),
    "line end, half close": trailing(b"\r\n", half_close),
    "pipelined request, fin": trailing(PIPELINED, fin),  # T02, B058
    "more later, fin": in_two_pieces(fin),
    "30 KB, fin": trailing(b"x" * 30_000, fin),
    "200 KB": lambda client: client.sendall(b"x" * 200_000),
}


@pytest.mark.parametrize("model", [EndlessModel, EndlessRing])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "stream"])
@pytest.mark.parametrize("way", WAYS)
def test_a_client_that_leaves_stops_its_generation(
    serve, way, stream, model
):  # B043, B047, B049, B053, B056, T02, T03
    server = serve(model())
    client = server.begin(stream=stream, max_tokens=512)
    wait_for(lambda: server.generator.model.tokens > 2)
    started = time.monotonic()
    try:
        WAYS[way](client)
    except OSError:
        assert way == "200 KB"  # the server closed while the client was still sending
    server.wait_until_free()
    assert time.monotonic() - started < SOON
    # A request behind the first may have been read, and nobody waits for its answer either.
    wait_for(lambda: server.counts().get("cancelled"))
    assert server.counts() in ({"cancelled": 1}, {"cancelled": 1 + (way == "pipelined request, fin")})
    assert server.generator.metrics.in_flight == 0
    client.close()
    follow_up = server.begin(stream=True)  # B047: and the next one runs
    read_until(follow_up, b"data: ")
    follow_up.close()
    server.wait_until_free()


def test_a_disconnected_plain_client_cancels_its_generation(serve):
    server = serve(EndlessModel())
    client = server.begin()
    assert server.generator.model.started.wait(SOON)
    client.close()
    server.wait_until_free()
    wait_for(lambda: server.counts() == {"cancelled": 1})
    assert server.sample("kael_request_seconds_count") == 1


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_left_is_logged_as_499(serve, stream, caplog):  # B055, T16
    server = serve(EndlessModel())
    with caplog.at_level("INFO"):
        client = server.begin(stream=stream)
        wait_for(lambda: server.received > 0)
        client.close()
        wait_for(lambda: "POST /generate 499" in caplog.text)
    assert [record for record in caplog.records if record.levelno > logging.INFO] == []


def test_a_generation_ends_at_the_token_after_the_client_left(serve):
    model = Paced()
    server = serve(model)
    client = server.begin(max_tokens=100)
    model.step(3)
    wait_for(lambda: server.received == 3 and model.awaits == 3)
    client.close()
    wait_for(lambda: server.counts() == {"cancelled": 1})
    model.step()
    server.wait_until_free()
    wait_for(lambda: server.sample("kael_generated_tokens_total") == 4)  # counted by the loop


@pytest.mark.parametrize("way", ["fin", "rst", "half close", "line end, fin"])
def test_a_request_cancelled_while_encoding_frees_its_slot(serve, way):
    tokenizer = SlowTokenizer(seconds=SOON)
    server = serve(Echo(), tokenizer)
    client = server.begin()
    assert tokenizer.started.wait(SOON)
    started = time.monotonic()
    WAYS[way](client)
    server.wait_until_free()
    assert time.monotonic() - started < SOON / 2  # before the encoder comes back
    wait_for(lambda: server.counts() == {"cancelled": 1})
    tokenizer.released.set()
    assert server.generate(max_tokens=1).status == 200
    assert server.sample("kael_request_seconds_count") == 1  # what was encoded is not generated from


def test_a_client_that_left_before_its_turn_is_not_served(serve):  # B044
    server = serve(Paced())  # which would wait for ever to be told to go on
    with server.hold_loop():  # until all have left
        for _ in range(50):
            client = server.begin(max_tokens=512)
            reset(client)
    wait_for(lambda: sum(server.counts().values()) >= 1 and server.is_free())
    server.wait_until_free()
    assert server.counts().get("ok", 0) == 0
    assert server.generator.metrics.in_flight == 0


def test_a_refused_client_that_leaves_stops_nobody_else(serve):  # B046
    model = Paced()
    server = serve(model)
    running = server.begin(max_tokens=3)
    wait_for(lambda: not server.is_free())
    refused = server.begin()
    read_until(refused, b"429")
    reset(refused)
    server.get("/health")
    model.step(3)
    assert read_response(running).json["tokens"] == 3


def test_a_client_that_leaves_in_the_middle_of_its_body_counts_as_cancelled(serve):
    server = serve(Echo())
    client = server.connect()
    client.sendall(message({"prompt": "hi"})[:-5])
    wait_for(lambda: server.http_server._connections)
    client.close()
    wait_for(lambda: server.counts() == {"cancelled": 1})
    assert server.is_free()


def test_a_pipelined_request_is_answered_after_the_first(serve):  # B058
    server = serve(Echo())
    client = server.connect()
    client.sendall(message({"prompt": "ab", "max_tokens": 2}) + message({"prompt": "cd", "max_tokens": 2}))
    assert [answer.json["text"] for answer in read_responses(client, 2)] == ["ab", "cd"]
    client.close()
    assert server.counts() == {"ok": 2}


def test_line_ends_behind_the_body_do_no_harm(serve):
    server = serve(Echo())
    client = server.connect()
    for _ in range(3):
        client.sendall(message({"prompt": "ab", "max_tokens": 2}) + b"\r\n")
        assert read_response(client).json["text"] == "ab"


def test_a_kept_connection_is_watched_in_each_of_its_requests(serve):
    server = serve(EndlessModel())
    client = server.connect()
    for _ in range(3):
        client.sendall(b"POST /generate HTTP/1.1\r\nContent-Length: 2\r\nHost: x\r\n\r\n{}")
        assert read_response(client).status == 422
    client.sendall(message({"prompt": "hi"}) + b"\r\n")
    wait_for(lambda: server.generator.model.tokens > 0)
    client.close()
    server.wait_until_free()


def test_a_client_that_left_does_not_hear_of_a_worker_that_is_late(serve, caplog):
    model = Deaf()
    server = serve(model)
    client = server.begin(stream=True)
    assert model.started.wait(SOON)
    client.close()
    wait_for(lambda: server.counts() == {"cancelled": 1})
    assert server.generate().status == 429  # the slot is the worker's, and it is not back
    model.released.set()
    server.wait_until_free()
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


def test_many_odd_requests_leave_a_server_that_works(serve):  # B034, B050, B052
    server = serve(EndlessModel(seconds=0.0005))
    for round_ in range(40):
        client = server.begin(stream=round_ % 2 == 0, max_tokens=512)
        if round_ % 3 == 0:
            wait_for(lambda: not server.is_free())
        list(WAYS.values())[round_ % 4](client)
        server.post(b"nonsense")
        client.close()
        server.wait_until_free()
    server.generator.model = Echo()
    assert server.generate("ab", max_tokens=2).json["text"] == "ab"
    assert server.generator.metrics.in_flight == 0
    wait_for(lambda: sum(server.counts().values()) == 81)
    wait_for(lambda: server.app.active == set())
