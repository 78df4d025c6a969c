"""Keys, host names, origins of web pages, and the ids of requests."""

from __future__ import annotations

import json
import socket

import pytest
from server_fakes import Echo, Paced
from server_live import message, read_response, read_to_end, wait_for

from server.access import is_loopback
from server.routes import ROUTES

KEY = "correct-horse"


@pytest.mark.parametrize(
    ("addresses", "expected"),
    [
        (["127.0.0.1"], True),
        (["127.0.1.1", "::1"], True),
        (["127.0.0.1", "192.0.2.1"], False),
        (["2001:db8::1"], False),
    ],
)
def test_a_name_is_of_this_machine_alone_where_all_its_addresses_are(monkeypatch, addresses, expected):
    found = [(0, 0, 0, "", (address, 0)) for address in addresses]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: found)
    assert is_loopback("name") is expected


def test_what_names_no_address_is_not_this_machine_alone():
    assert not is_loopback("")
    assert not is_loopback("a" * 300)


PROMPT = json.dumps({"prompt": "hi", "max_tokens": 2})


def ask(server, method="POST", path="/generate", **headers):
    body = PROMPT if method == "POST" else None
    return server.request(
        method, path, body, {name.replace("_", "-"): text for name, text in headers.items()}
    )


@pytest.fixture
def locked(serve):
    return serve(Echo(), api_keys=("other", KEY))


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_key_opens(locked, scheme):
    assert ask(locked, Authorization=f"{scheme} {KEY}").status == 200
    assert ask(locked, Authorization="Bearer other").status == 200
    assert ask(locked, "GET", "/metrics", Authorization=f"{scheme} {KEY}").status == 200


@pytest.mark.parametrize(
    "authorization",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        KEY,
        f"Basic {KEY}",
        f"Bearer {KEY}x",
        f"Bearer {KEY[:-1]}",
        f"Bearer x{KEY}",
        f"Bearer {KEY.upper()}",
        "Bearer caf\xe9",  # B116
        "Bearer " + "x" * 8000,
    ],
)
@pytest.mark.parametrize(("method", "path"), [("POST", "/generate"), ("GET", "/metrics"), ("GET", "/nope")])
def test_without_a_key_nothing_is_answered(locked, method, path, authorization):
    headers = {} if authorization is None else {"Authorization": authorization}
    answer = ask(locked, method, path, **headers)
    assert answer.status == 401
    assert answer.headers["WWW-Authenticate"] == "Bearer"
    assert answer.json == {"error": "a key is needed: Authorization: Bearer KEY"}
    assert answer.headers["X-Request-Id"]
    assert locked.is_free()
    assert locked.counts() == ({"rejected": 1} if path == "/generate" else {})


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
def test_every_route_but_health_and_ready_and_a_page_to_give_it_needs_a_key(locked, route):
    is_open = route.path in ("/health", "/ready", "/playground/{name}")
    path = route.path.replace("{name}", "model")
    body = "{}" if route.method == "POST" else None
    refused = locked.request(route.method, path, body)
    assert (refused.status == 401) != is_open
    assert locked.request(route.method, path, body, {"Authorization": f"Bearer {KEY}"}).status != 401
    assert locked.request("OPTIONS", path).status == 204


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.path)
def test_no_route_but_health_and_ready_answers_by_a_foreign_name_or_for_a_foreign_page(serve, route):
    server = serve(Echo(), allowed_hosts=())
    body = "{}" if route.method == "POST" else None
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
        answer = server.request(route.method, route.path.replace("{name}", "model"), body, headers)
        assert (answer.status == 403) != (route.path in ("/health", "/ready"))
        assert "evil" not in answer.body.decode()


def test_health_needs_no_key(locked):
    assert ask(locked, "GET", "/ready").json == {"status": "ready"}
    assert ask(locked, "GET", "/health").json == {"status": "ok"}
    assert ask(locked, "HEAD", "/health").status == 200


def test_a_refusal_reaches_a_client_that_sends_everything_first(locked):
    for size in (10, 40_000, 3_000_000):
        assert locked.request("POST", "/generate", b"x" * size).status == 401
    wait_for(lambda: locked.app.draining_bodies == 0)


def test_a_client_that_asks_first_is_not_given_leave(locked):
    client = locked.connect()
    client.sendall(message({"prompt": "hi"}, "Expect: 100-continue").partition(b"{")[0])
    data = read_to_end(client)
    assert data.startswith(b"HTTP/1.1 401 ")
    assert b"HTTP/1.1 100" not in data


def test_keys_are_not_in_the_log(locked, caplog):
    with caplog.at_level("DEBUG"):
        ask(locked, Authorization=f"Bearer {KEY}")
        ask(locked, Authorization="Bearer wrong-battery")
        wait_for(lambda: caplog.text.count("POST /generate") >= 2)
        assert KEY not in caplog.text
        assert "wrong-battery" not in caplog.text


@pytest.mark.parametrize(
    "host",
    [
        "localhost",
        "LOCALHOST:80",
        "127.0.0.1:8000",
        "[::1]:8000",
        "10.0.0.7",
        "kael",
        "a.localhost",
        "a.org.",
    ],
)
def test_addresses_names_of_this_network_and_given_names_are_served(serve, host):
    server = serve(Echo(), allowed_hosts=("a.org",))
    assert ask(server, Host=host).status == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example", "a.org.evil.example", "b.a.org"]
)
def test_a_name_that_was_made_to_mean_this_machine_is_refused(serve, host):  # B118
    server = serve(Echo(), allowed_hosts=("a.org",))
    for method, path in (("POST", "/generate"), ("GET", "/metrics"), ("GET", "/"), ("OPTIONS", "/generate")):
        answer = ask(server, method, path, Host=host)
        assert answer.status == 403
        assert "--allowed-host" in answer.json["error"]
        assert "evil" not in answer.body.decode()
    assert server.counts() == {"rejected": 1}


@pytest.mark.parametrize("hosts", [None, ("*",)])
def test_any_name_will_do_where_none_is_asked_for(serve, hosts):
    assert ask(serve(Echo(), allowed_hosts=hosts), Host="evil.example").status == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "", "x"])
def test_a_page_of_another_origin_may_not_ask(server, origin):  # B118
    answer = ask(server, Origin=origin, Content_Type="text/plain")
    assert answer.status == 403
    assert "--cors-origin" in answer.json["error"]
    assert "Access-Control-Allow-Origin" not in answer.headers
    assert server.counts() == {"rejected": 1}


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "http://kael:8000", "Host": "kael:8000"},
        {"Origin": "https://KAEL", "Host": "kael"},
        {"Origin": "https://shop.example", "Sec-Fetch-Site": "same-origin"},
        {"Sec-Fetch-Site": "cross-site"},  # a link: nothing that a page could read
    ],
)
def test_a_page_of_this_origin_may_ask(server, headers):
    answer = ask(server, **headers)
    assert answer.status == 200
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_no_page_may_read_unless_its_origin_is_given(serve):
    server = serve(Echo(), cors_origins=("https://good.example",))
    good = ask(server, Origin="https://good.example")
    assert good.status == 200
    assert good.headers["Access-Control-Allow-Origin"] == "https://good.example"
    assert "Retry-After" in good.headers["Access-Control-Expose-Headers"]
    assert good.headers["Vary"] == "Origin"
    bad = ask(server, Origin="https://good.example.evil.example")
    assert bad.status == 403
    assert "Access-Control-Allow-Origin" not in bad.headers
    assert ask(server).headers["Vary"] == "Origin"
    refused = server.request("POST", "/generate", b"{}", {"Origin": "https://good.example"})
    assert (refused.status, refused.headers["Access-Control-Allow-Origin"]) == (422, "https://good.example")
    health = ask(server, "GET", "/health", Origin="https://good.example")
    assert health.headers["Access-Control-Allow-Origin"] == "https://good.example"


def test_every_origin_may_be_let_in(serve):
    answer = ask(serve(Echo(), cors_origins=("*",)), Origin="null")
    assert (answer.status, answer.headers["Access-Control-Allow-Origin"]) == (200, "null")


def test_a_browser_that_asks_before_it_sends_is_told(serve):  # B115
    server = serve(Echo(), cors_origins=("https://good.example",), api_keys=(KEY,))
    headers = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    answer = server.request("OPTIONS", "/generate", headers={**headers, "Origin": "https://good.example"})
    assert (answer.status, answer.body) == (204, b"")
    assert answer.headers["Access-Control-Allow-Origin"] == "https://good.example"
    assert answer.headers["Access-Control-Allow-Methods"] == "POST, OPTIONS"
    assert "Authorization" in answer.headers["Access-Control-Allow-Headers"]
    assert int(answer.headers["Access-Control-Max-Age"]) > 0  # else it asks before each request
    other = server.request("OPTIONS", "/generate", headers={**headers, "Origin": "https://evil.example"})
    assert other.status == 403
    assert not [name for name in other.headers if name.lower().startswith("access-control-")]


def test_options_without_a_page_name_the_methods(server):  # B115
    for path, allow in {"/generate": "POST, OPTIONS", "/metrics": "GET, HEAD, OPTIONS"}.items():
        answer = ask(server, "OPTIONS", path)
        assert (answer.status, answer.headers["Allow"]) == (204, allow)
        assert not [name for name in answer.headers if name.lower().startswith("access-control-")]


def test_the_id_of_a_request_is_the_clients_where_it_is_sane(server, caplog):
    with caplog.at_level("INFO"):
        for path in ("/generate", "/nope"):
            answer = ask(server, path=path, X_Request_Id="trace:7f.A-b_1")
            assert answer.headers["X-Request-Id"] == "trace:7f.A-b_1"
        wait_for(lambda: caplog.text.count("trace:7f.A-b_1") == 2)
    refused = server.request("POST", "/generate", b"{}", {"X-Request-Id": "mine"})
    assert refused.json["request_id"] == refused.headers["X-Request-Id"] == "mine"


@pytest.mark.parametrize("given", ["", "two words", "x" * 65, "caf\xe9", 'a"b', "a,b", "a\tb", "%0a"])
def test_another_id_is_made_where_the_clients_is_not(server, given, caplog):
    with caplog.at_level("INFO"):
        ids = {ask(server, X_Request_Id=given).headers["X-Request-Id"] for _ in range(2)}
        wait_for(lambda: all(one in caplog.text for one in ids))
        assert not given or given not in caplog.text
    assert len(ids) == 2
    assert all(len(one) == 16 and set(one) <= set("0123456789abcdef") for one in ids)


def test_busy_may_be_503(serve):  # T29
    model = Paced()
    server = serve(model, busy_status=503)
    running = server.begin(max_tokens=1)
    wait_for(lambda: not server.is_free())
    refused = ask(server)
    assert (refused.status, refused.json) == (503, {"error": "the model is busy"})
    assert refused.headers["Retry-After"] == "1"
    assert refused.headers["Connection"] != "close"
    model.step()
    assert read_response(running).status == 200
    assert server.counts() == {"busy": 1, "ok": 1}
