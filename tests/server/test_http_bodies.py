"""Bodies that are too large, cut into pieces, late or absent."""

from __future__ import annotations

import http.client
import logging
import threading
import time

import pytest
from server_fakes import Echo
from server_live import LONGER, message, read_response, read_to_end, read_until, wait_for

from server import bodies
from server.endpoints.generate import GenerateHandler
from server.limits import MAX_BODY_BYTES

TOO_LARGE = {"error": "the body is larger than 50176 bytes (the server's --max-body-bytes)"}


def chunked(data, size=8192):
    for start in range(0, len(data), size):
        piece = data[start : start + size]
        yield b"%x\r\n%s\r\n" % (len(piece), piece)
    yield b"0\r\n\r\n"


def test_the_limit_is_what_the_prompt_may_take():
    assert MAX_BODY_BYTES == 50_176


def test_a_body_larger_than_the_limit_is_rejected_before_parsing(server):
    answer = server.post(b"x" * (MAX_BODY_BYTES + 1))
    assert (answer.status, answer.json) == (413, TOO_LARGE)
    assert answer.headers["X-Request-Id"]
    assert answer.headers["Connection"] == "close"  # T05
    assert server.counts() == {"rejected": 1}
    assert server.generator.metrics.in_flight == 0
    assert server.post(b"x" * MAX_BODY_BYTES).status == 422


@pytest.mark.parametrize("encoding", ["length", "chunked"])
@pytest.mark.parametrize("size", [60_000, 1_000_000, 5_000_000])
def test_413_reaches_a_client_that_sends_everything_first(
    server, size, encoding
):  # B109, B110, B136, T01, T04, T05
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
    body = b"x" * size
    if encoding == "length":
        connection.request("POST", "/generate", body)
    else:
        pieces = (body[start : start + 8192] for start in range(0, size, 8192))
        connection.request("POST", "/generate", pieces, encode_chunked=True)
    response = connection.getresponse()
    assert response.status == 413
    assert b"50176" in response.read()
    connection.close()
    wait_for(lambda: server.app.draining_bodies == 0)
    assert server.counts() == {"rejected": 1}


def test_the_limit_can_be_raised(serve):
    server = serve(Echo(), max_body_bytes=200_000)
    emoji = '{"prompt": "%s", "max_tokens": 1}' % ("\\ud83d\\ude00" * 8192)  # 12 bytes a character
    assert len(emoji) > MAX_BODY_BYTES
    assert server.post(emoji.encode()).status == 413  # no room in the context, which is another matter
    assert "context" in server.post(emoji.encode()).json["error"]
    assert server.post(b" " * 199_000 + b'{"prompt": "a", "max_tokens": 1}').status == 200
    assert "200000 bytes" in server.post(b"x" * 200_001).json["error"]


@pytest.mark.parametrize("sent", [b"", b"GET /health HTTP/1.1\r\nHost: x\r\n"])
def test_headers_that_do_not_come_are_not_waited_for(serve, sent):  # T11
    server = serve(Echo(), idle_seconds=0.1)
    client = server.connect()
    client.sendall(sent)
    assert client.recv(1) == b""
    client.close()
    assert server.counts() == {}


def test_413_comes_before_the_body_does(server):
    client = server.connect()
    client.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n")
    assert read_response(client).json == TOO_LARGE
    client.sendall(b"x" * 60000)
    assert client.recv(1) == b""  # nothing behind it, and the connection is over


def test_a_drain_ends_after_its_bytes(server, monkeypatch):
    monkeypatch.setattr(bodies, "DRAIN_BYTES", 200_000)
    client = server.connect()
    client.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 90000000\r\n\r\n")
    assert read_response(client).status == 413
    with pytest.raises(OSError, match=r"reset|pipe"):
        client.sendall(b"x" * 20_000_000)
    client.close()
    wait_for(lambda: server.app.draining_bodies == 0)


def test_a_drain_ends_after_its_time(server, monkeypatch):
    monkeypatch.setattr(bodies, "DRAIN_SECONDS", 0.1)
    client = server.connect()
    client.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\nxxx")
    assert read_response(client).status == 413
    assert client.recv(1) == b""
    client.close()
    wait_for(lambda: server.app.draining_bodies == 0)


def test_a_client_that_leaves_during_the_drain_ends_it(server):
    client = server.connect()
    client.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\nxxx")
    assert read_response(client).status == 413
    assert server.app.draining_bodies == 1
    client.close()
    wait_for(lambda: server.app.draining_bodies == 0)
    assert server.counts() == {"rejected": 1}


def test_only_a_few_drains_run_at_once(server):
    clients = []
    for _ in range(bodies.MAX_DRAINS):
        client = server.connect()
        client.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\nx")
        assert read_response(client).status == 413
        clients.append(client)
    assert server.app.draining_bodies == bodies.MAX_DRAINS
    client = server.connect()
    client.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\n\r\n")
    assert read_response(client).status == 413
    assert client.recv(1) == b""
    for drained in [*clients, client]:
        drained.close()
    wait_for(lambda: server.app.draining_bodies == 0)


@pytest.mark.parametrize("expect", ["100-continue", "100-Continue"])
def test_a_client_that_asks_first_is_refused_without_leave(server, expect):  # T08
    client = server.connect()
    head = f"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: 60000\r\nExpect: {expect}\r\n\r\n"
    client.sendall(head.encode())
    data = read_to_end(client)
    assert data.startswith(b"HTTP/1.1 413 ")
    assert b"HTTP/1.1 100" not in data


@pytest.mark.parametrize("expect", ["100-continue", "100-Continue"])
def test_a_client_that_asks_first_gets_leave(server, expect):  # T08
    client = server.connect()
    request = message({"prompt": "ab", "max_tokens": 2}, f"Expect: {expect}")
    head, body = request.split(b"\r\n\r\n")
    client.sendall(head + b"\r\n\r\n")
    assert read_until(client, b"\r\n\r\n").startswith(b"HTTP/1.1 100 ")
    client.sendall(body)
    assert read_response(client).json["text"] == "ab"


@pytest.mark.parametrize(
    "headers", ["", "Content-Length: 0\r\n", "Content-Length: 0\r\nExpect: 100-continue\r\n"]
)
def test_no_body_is_an_invalid_request(server, headers):  # B112, B113
    client = server.connect()
    client.sendall(f"POST /generate HTTP/1.1\r\nHost: x\r\n{headers}\r\n".encode())
    assert read_until(client, b"\r\n\r\n").startswith(b"HTTP/1.1 422 ")


def test_a_body_in_small_chunks_is_read(server):
    client = server.connect()
    client.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    for piece in chunked(b'{"prompt": "ab", "max_tokens": 2}', size=3):
        client.sendall(piece)
    assert read_response(client).json["text"] == "ab"


@pytest.mark.parametrize(
    "rest",
    [
        b"Transfer-Encoding: chunked\r\n\r\n2;name=value\r\n{}\r\n0\r\n\r\n",  # T09
        b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nTrailer: x\r\n\r\n",  # T09
        b"Transfer-Encoding: chunked, identity\r\n\r\n2\r\n{}\r\n0\r\n\r\n",  # B137
        b"Transfer-Encoding: identity\r\n\r\n{}",  # B137
        b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n",  # B137
    ],
    ids=["chunk extension", "trailer", "two encodings", "unknown encoding", "two lengths"],
)
def test_a_body_without_one_clear_end_is_refused(server, rest):
    client = server.connect()
    client.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\n" + rest)
    assert read_to_end(client).startswith(b"HTTP/1.1 400 ")
    wait_for(server.is_free)
    assert server.generate(max_tokens=1).status == 200


@pytest.mark.parametrize(
    "length", [b"-1", b"1e3", b"0x10", b"+5", "\u0665".encode(), b"9" * 20, b"9" * 5000, b"5, 6"], ids=repr
)
def test_an_odd_length_is_refused(server, length):
    client = server.connect()
    client.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: " + length + b"\r\n\r\nxxxxx")
    answer = client.recv(65536)
    assert answer.startswith(b"HTTP/1.1 4")
    assert answer.count(b"HTTP/1.1") == 1
    client.close()
    assert server.get("/health").status == 200


def test_the_other_routes_read_no_large_body(server):
    for path in ("/health", "/metrics", "/nope"):
        client = server.connect()
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n".encode())
        data = client.recv(65536)
        assert data.startswith((b"HTTP/1.1 400", b"HTTP/1.1 200", b"HTTP/1.1 404"))
        client.close()


def test_a_header_without_end_is_refused(server):  # B119
    client = server.connect()
    with pytest.raises(OSError, match=r"reset|pipe"):
        client.sendall(b"GET /health HTTP/1.1\r\nX: " + b"x" * 20_000_000)
    client.close()
    assert server.get("/health").status == 200


def test_a_body_that_does_not_come_is_not_waited_for(serve):  # T11
    server = serve(Echo(), body_seconds=0.1)
    client = server.connect()
    client.sendall(message({"prompt": "hi"})[:-5])
    started = time.monotonic()
    assert client.recv(1) == b""
    assert time.monotonic() - started < 10
    client.close()
    wait_for(lambda: server.counts() == {"cancelled": 1})


def test_the_loop_goes_on_while_a_large_body_is_checked(serve, monkeypatch):
    asked, released = threading.Event(), threading.Event()

    def parse(self, body, original=GenerateHandler.parse):
        asked.set()
        released.wait(LONGER)
        return original(self, body)

    monkeypatch.setattr(GenerateHandler, "parse", parse)
    server = serve(Echo())
    client = server.connect()
    client.sendall(message({"prompt": "a" * 5000, "max_tokens": 2}))
    assert asked.wait(20)
    assert server.get("/health").status == 200
    released.set()
    assert read_response(client).status == 413


@pytest.mark.parametrize(
    ("path", "sent", "line"),
    [
        ("/generate", {"key": "wrong", "length": 10}, "POST /generate 401"),
        ("/tokenize", {"key": "wrong", "length": 10}, "POST /tokenize 401"),
        ("/generate", {"key": "right", "length": 90_000_000}, "POST /generate 413"),
        ("/generate", {"key": "right", "length": 10}, "POST /generate 400"),
        ("/detokenize", {"key": "right", "length": 10}, "POST /detokenize 400"),
    ],
)
def test_a_request_whose_body_does_not_come_has_one_line_in_the_log(serve, caplog, path, sent, line):
    caplog.set_level(logging.INFO)
    server = serve(Echo(), api_keys=("right",))
    client = server.connect()
    client.sendall(
        f"POST {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {sent['key']}\r\n"
        f"Content-Length: {sent['length']}\r\n\r\n{{".encode()
    )
    if not line.endswith("400"):
        assert read_response(client).status == int(line[-3:])
    client.close()
    wait_for(lambda: line in caplog.text)
    server.close()
    assert caplog.text.count(f"POST {path}") == 1


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("multipart/form-data", "x"),
        ("multipart/form-data; boundary=a", "x"),
        ("application/x-www-form-urlencoded", "a=%ff"),
        ("application/x-www-form-urlencoded", "&".join(f"field{number}=1" for number in range(2000))),
    ],
)
def test_a_body_is_never_read_as_a_form(server, content_type, body):  # B139
    headers = {"Content-Type": content_type}
    for method, path, status in (
        ("GET", "/", 200),
        ("GET", "/metrics", 200),
        ("GET", "/health", 200),
        ("POST", "/health", 405),
        ("POST", "/nowhere", 404),
    ):
        assert server.request(method, path, body, headers).status == status
    assert server.request("POST", "/generate", b'{"prompt": "hi", "max_tokens": 4}', headers).status == 200
