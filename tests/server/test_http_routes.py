"""Paths, methods and headers, with pytest-tornado."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

pytest.importorskip(
    "pytest_tornado", reason="pytest-tornado is not installed (packaging/requirements/test.txt)"
)

import tornado.ioloop
from server_fakes import Broken, Bytes, Echo

from server import Generator, create_app
from server.routes import ROUTES

pytestmark = pytest.mark.gen_test(timeout=20)


@pytest.fixture
def io_loop():
    """In place of pytest-tornado's own, whose way of making a loop is deprecated (B143)."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    io_loop = tornado.ioloop.IOLoop(asyncio_loop=loop, make_current=False)
    yield io_loop
    asyncio.set_event_loop(None)
    io_loop.close(all_fds=True)


@pytest.fixture
def generator():
    return Generator(Echo(), Bytes(), context=64)


@pytest.fixture
def app(generator):
    return create_app(generator)


@pytest.fixture
def fetch(http_client, base_url):
    def fetch(path, method="GET", **options):
        return http_client.fetch(
            base_url + path, method=method, raise_error=False, allow_nonstandard_methods=True, **options
        )

    return fetch


def generation(**fields):
    return json.dumps({"prompt": "hi", "max_tokens": 4, **fields})


async def test_health_and_prometheus_metrics(fetch):  # B131
    health = await fetch("/health")
    assert (health.code, json.loads(health.body)) == (200, {"status": "ok"})
    assert (await fetch("/generate", "POST", body=generation())).code == 200
    assert (await fetch("/generate", "POST", body="{}")).code == 422
    metrics = await fetch("/metrics")
    assert metrics.code == 200
    assert metrics.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"  # B127
    page = metrics.body.decode()
    for line in (
        'kael_requests_total{status="ok"} 1.0',
        'kael_requests_total{status="rejected"} 1.0',
        'kael_requests_total{status="busy"} 0.0',
        'kael_requests_total{status="error"} 0.0',
        'kael_requests_total{status="cancelled"} 0.0',
        "kael_generated_tokens_total 4.0",
        "kael_requests_in_flight 0.0",
        "kael_request_seconds_count 1.0",
        'kael_request_seconds_bucket{le="+Inf"} 1.0',
    ):
        assert line in page.splitlines()
    assert re.search(r"^kael_tokens_per_second \d", page, re.MULTILINE)
    assert re.search(r"^kael_peak_memory_bytes [\d.e+]+$", page, re.MULTILINE)


@pytest.mark.parametrize("path", ["/", "/health", "/metrics", "/openapi.json", "/ready", "/v1/models"])
async def test_head_answers_as_get_without_a_body(fetch, path):  # B076, T06
    head = await fetch(path, "HEAD")
    get = await fetch(path)
    assert (head.code, head.body) == (200, b"")
    assert head.headers["Content-Type"] == get.headers["Content-Type"]
    assert int(head.headers["Content-Length"]) > 0


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("GET", "/generate", "POST, OPTIONS"),
        ("PUT", "/generate", "POST, OPTIONS"),
        ("POST", "/", "GET, HEAD, OPTIONS"),
        ("DELETE", "/metrics", "GET, HEAD, OPTIONS"),
        ("POST", "/health", "GET, HEAD, OPTIONS"),
        ("BREW", "/metrics", "GET, HEAD, OPTIONS"),
        ("GET", "/tokenize", "POST, OPTIONS"),
        ("PUT", "/detokenize", "POST, OPTIONS"),
        ("POST", "/openapi.json", "GET, HEAD, OPTIONS"),
    ],
)
async def test_a_wrong_method_is_told_the_right_ones(fetch, method, path, allow):  # T06
    answer = await fetch(path, method)
    assert answer.code == 405
    assert answer.headers["Allow"] == allow
    assert json.loads(answer.body) == {"error": "method not allowed"}


async def test_the_root_names_the_routes(fetch):
    answer = await fetch("/")
    assert (answer.code, answer.headers["Content-Type"]) == (200, "application/json")
    routes = json.loads(answer.body)["routes"]
    assert list(routes) == [f"{route.method} {route.path}" for route in ROUTES]
    assert all(routes.values())


@pytest.mark.parametrize("path", ["//", "/nope", "/generate/", "/health/x", "/x/../metrics"])
async def test_an_unknown_path_is_404_in_json_and_makes_no_series(fetch, generator, path):  # T07, B125
    before = generator.metrics.render("")[0].count(b"\n")
    answer = await fetch(path)
    assert answer.code == 404
    assert json.loads(answer.body) == {"error": "not found"}
    assert answer.headers["Content-Type"] == "application/json"
    assert generator.metrics.render("")[0].count(b"\n") == before


@pytest.mark.parametrize("path", ["/health", "/metrics", "/nope", "/generate"])
async def test_no_answer_says_what_it_runs_on(fetch, path):  # T07
    answer = await fetch(
        path, "POST" if path == "/generate" else "GET", body=generation() if path == "/generate" else None
    )
    assert answer.headers["Server"] == "kael"
    assert "Date" in answer.headers


@pytest.mark.parametrize("path", ["/health", "/metrics"])
async def test_no_answer_is_not_modified(fetch, path):  # T12
    answer = await fetch(path, headers={"If-None-Match": "*"})
    assert answer.code == 200
    assert "Etag" not in answer.headers


async def test_the_model_failing_is_500_in_json(fetch, generator, caplog):
    generator.model = Broken()
    answer = await fetch("/generate", "POST", body=generation())
    assert answer.code == 500
    assert json.loads(answer.body) == {"error": "generation failed"}
    assert "secret detail" not in answer.body.decode() + str(answer.headers)
    (record,) = (record for record in caplog.records if record.levelname == "ERROR")
    assert answer.headers["X-Request-Id"] in record.getMessage()
    assert "secret detail" in caplog.text


async def test_open_metrics_on_request(fetch):  # B128, T25
    answer = await fetch("/metrics", headers={"Accept": "application/openmetrics-text; version=1.0.0"})
    assert answer.headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert answer.body.endswith(b"# EOF\n")
    assert b"_created" not in answer.body


@pytest.mark.parametrize("method", ["FOO", "TRACE", "CONNECT", "get"])
def test_an_unknown_method_on_an_unknown_path_is_404(server, method):
    assert server.request(method, "/nope").status == 404
