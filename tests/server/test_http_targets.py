"""Requests for a whole URL, as proxies send them, and for the server as such (RFC 9112, section 3.2)."""

from __future__ import annotations

import json
import logging

import pytest
from server_fakes import Echo
from server_live import read_response, read_to_end


def ask(server, line, host="server", body=b""):
    client = server.connect()
    head = f"{line} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {len(body)}\r\n\r\n"
    client.sendall(head.encode() + body)
    return read_response(client, line.partition(" ")[0])


def test_a_whole_url_is_its_path(serve):
    server = serve(Echo())
    assert ask(server, "GET http://server/health").json == {"status": "ok"}
    assert ask(server, "GET HTTP://server:80/health?x=1").json == {"status": "ok"}
    assert "routes" in ask(server, "GET http://server").json
    body = json.dumps({"prompt": "ab", "max_tokens": 1}).encode()
    assert ask(server, "POST http://server/generate", body=body).json["tokens"] == 1


def test_the_host_of_a_whole_url_counts(serve):
    server = serve(Echo(), allowed_hosts=())
    assert ask(server, "GET http://server/metrics", host="evil.example").status == 200
    assert ask(server, "GET http://evil.example/metrics").status == 403


@pytest.mark.parametrize(
    "target", ["http://", "http:///health", "http://[/health", "ftp://server/health", "*"]
)
def test_what_is_no_url_of_http_is_not_found(serve, target):
    assert ask(serve(Echo()), f"GET {target}").status == 404


@pytest.mark.parametrize("host", ["a:" + "9" * 5000, "h" * 2000])
def test_a_host_header_of_any_length_is_answered(serve, host, caplog):
    client = serve(Echo()).connect()
    client.sendall(f"GET /health HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    assert read_to_end(client).startswith(b"HTTP/1.1 400 ")
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


def test_the_server_as_such_has_the_options_of_its_root(serve):
    answer = ask(serve(Echo()), "OPTIONS *")
    assert (answer.status, answer.headers["Allow"]) == (204, "GET, HEAD, OPTIONS")
