"""Any bytes on a connection, in any pieces, ended in any way: the server stays whole."""

from __future__ import annotations

import contextlib
import itertools
import json
import logging

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from server_fakes import Echo
from server_live import reset, wait_for

from server import errors
from server.routes import ROUTES

PROMPT = json.dumps({"prompt": "hi", "max_tokens": 3})

tokens = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=8)
methods = st.sampled_from(["GET", "POST", "HEAD", "OPTIONS", "PUT", "TRACE", "get"]) | tokens
paths = (
    st.sampled_from([route.path for route in ROUTES])
    | st.sampled_from(["/nope", "*", "//", "http://x/"])
    | tokens
)
versions = st.sampled_from(["HTTP/1.1"] * 8 + ["HTTP/1.0", "HTTP/2.0", "HTTP/1.", ""])
texts = st.text(st.characters(max_codepoint=255), max_size=20)
lengths = st.integers(-1, 100) | st.sampled_from([2**31, 2**63, 10**30])
headers = (
    st.tuples(st.sampled_from(["Content-Length"]), lengths.map(str))
    | st.tuples(st.just("Transfer-Encoding"), st.sampled_from(["chunked", "identity", "gzip, chunked", "x"]))
    | st.tuples(st.just("Expect"), st.sampled_from(["100-continue", "200-ok", ""]))
    | st.tuples(st.just("Connection"), st.sampled_from(["close", "keep-alive", "upgrade", ""]))
    | st.tuples(
        st.sampled_from(
            ["Host", "Origin", "Accept", "Authorization", "Content-Type", "X-Request-Id", "Range"]
        ),
        texts,
    )
    | st.tuples(tokens, texts)
)
bodies = (
    st.just(PROMPT.encode())
    | st.sampled_from(
        [
            b"{}",
            b'{"prompt": "a", "stream": true, "max_tokens": 2}',
            b'{"text": "a"}',
            b'{"tokens": [1, 2]}',
            b"",
            b"0\r\n\r\n",
            b"5\r\nab",
        ]
    )
    | st.binary(max_size=40)
)


@st.composite
def requests(draw):
    body = draw(bodies)
    lines = [f"{draw(methods)} {draw(paths)} {draw(versions)}"]
    if draw(st.integers(0, 9)):
        lines.append("Host: test")
    if draw(st.integers(0, 3)):
        lines.append(f"Content-Length: {len(body)}")
    lines += [f"{name}: {text}" for name, text in draw(st.lists(headers, max_size=3))]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


streams = st.lists(requests() | st.binary(max_size=60), min_size=1, max_size=3).map(b"".join)
ends = st.sampled_from(["close", "reset", "half-close", "read"])


def converse(server, data, cuts, end):
    client = server.connect()
    client.settimeout(0.2)
    places = sorted({cut % (len(data) + 1) for cut in cuts} | {0, len(data)})
    with contextlib.suppress(OSError):  # the server may close at any time
        for start, stop in itertools.pairwise(places):
            client.sendall(data[start:stop])
        if end == "half-close":
            client.shutdown(1)
        if end == "reset":
            reset(client)
        if end in ("half-close", "read"):
            client.recv(65536)
    client.close()
    server._clients.remove(client)


@pytest.fixture(params=[{}, {"queue": 2, "api_keys": ("key",), "cors_origins": ("https://a.org",)}])
def hostile(serve, request):
    return serve(Echo(), context=64, **request.param)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=streams, cuts=st.lists(st.integers(0, 400), max_size=3), end=ends)
def test_whatever_comes_the_server_stays_whole(hostile, caplog, data, cuts, end):
    caplog.clear()
    converse(hostile, data, cuts, end)
    assert hostile.get("/health").status == 200
    wait_for(lambda: hostile.is_free() and not hostile.app.active)
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    assert hostile.failures == []
    reasons = (*errors.BUSY_REASONS, *errors.REJECTED_REASONS)
    counts = hostile.counts()
    assert counts.get("busy", 0) + counts.get("rejected", 0) == sum(
        hostile.sample("kael_rejected_total", reason=reason) for reason in reasons
    )
