"""The page at /, as HTTP: who gets it, its files, and what a browser is told of them."""

from __future__ import annotations

import re

import pytest
import server_process
from server_fakes import Echo

KEY = "correct-horse"
FOLDER = server_process.ROOT / "server" / "playground"
FILES = {path.name: path.read_bytes() for path in FOLDER.iterdir() if path.name != "index.html"}

BROWSERS = [
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
    "text/html",
    "TEXT/HTML;charset=utf-8",
    "text/*",
    "application/json;q=0.5, text/html;q=0.6",
    "*/*, application/json;q=0.9",
]
PROGRAMS = [
    None,
    "",
    "*/*",
    "application/json",
    "application/json, text/plain, */*",
    "text/html;q=0.5, application/json",
    "text/html, application/json",
    "text/html;q=0",
    "text/html;q=nan, */*",
    "text/html;q=2",
    "image/png",
    ",;q=,/",
]


@pytest.fixture
def locked(serve):
    return serve(Echo(), api_keys=(KEY,))


def get(server, path="/", accept=None, method="GET", **headers):
    headers = {name.replace("_", "-"): text for name, text in headers.items()}
    return server.request(method, path, headers=headers if accept is None else {"Accept": accept, **headers})


def kind(answer):
    return answer.headers["Content-Type"].partition(";")[0]


@pytest.mark.parametrize("accept", BROWSERS)
def test_a_browser_gets_the_page(server, accept):
    answer = get(server, accept=accept)
    assert (answer.status, kind(answer)) == (200, "text/html")
    assert answer.body == (FOLDER / "index.html").read_bytes()


@pytest.mark.parametrize("accept", PROGRAMS)
def test_a_program_gets_the_routes(server, accept):
    answer = get(server, accept=accept)
    assert (answer.status, kind(answer)) == (200, "application/json")
    assert "GET /" in answer.json["routes"]


@pytest.mark.parametrize("accept", [BROWSERS[0], PROGRAMS[0]])
def test_caches_are_told_that_the_two_differ(serve, accept):
    assert get(serve(Echo()), accept=accept).headers.get_all("Vary") == ["Accept"]
    shared = get(serve(Echo(), cors_origins=("https://a.example",)), accept=accept)
    assert sorted(shared.headers.get_all("Vary")) == ["Accept", "Origin"]


@pytest.mark.parametrize("path", ["/", *(f"/playground/{name}" for name in FILES)])
def test_the_page_is_protected_and_fresh(server, path):
    answer = get(server, path, "text/html")
    policy = dict(rule.split(" ", 1) for rule in answer.headers["Content-Security-Policy"].split("; "))
    assert policy.pop("default-src") == "'none'"
    nothing = ("base-uri", "frame-ancestors", "form-action")
    assert {policy.pop(name) for name in nothing} == {"'none'"}
    assert policy == dict.fromkeys(("script-src", "style-src", "img-src", "connect-src"), "'self'")
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert answer.headers["Cache-Control"] == "no-cache"
    assert answer.headers["Content-Type"].endswith("; charset=utf-8")


@pytest.mark.parametrize("path", ["/", "/playground/playground.js"])
def test_a_browser_that_has_it_is_told_so(server, path):
    first = get(server, path, "text/html")
    again = get(server, path, "text/html", If_None_Match=first.headers["Etag"])
    assert (again.status, again.body) == (304, b"")
    other = get(server, path, "text/html", If_None_Match='"other"')
    assert (other.status, other.body) == (200, first.body)


@pytest.mark.parametrize("path", ["/", "/playground/playground.css"])
def test_head_answers_without_a_body(server, path):
    whole, head = get(server, path, "text/html"), get(server, path, "text/html", method="HEAD")
    assert (head.status, head.body) == (200, b"")
    for name in ("Content-Type", "Content-Length", "Etag", "Content-Security-Policy"):
        assert head.headers[name] == whole.headers[name]


@pytest.mark.parametrize("path", ["/", "/playground/playground.js"])
def test_another_method_is_told_the_right_ones(server, path):
    answer = get(server, path, "text/html", method="POST")
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD, OPTIONS")
    assert answer.json == {"error": "method not allowed"}


@pytest.mark.parametrize(("name", "data"), FILES.items(), ids=FILES)
def test_every_file_is_served_as_what_it_is(server, name, data):
    answer = get(server, f"/playground/{name}")
    assert (answer.status, answer.body) == (200, data)
    types = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
    assert kind(answer) == types[name.rpartition(".")[2]]


@pytest.mark.parametrize(
    "name",
    [
        "nope.js",
        "index.html",
        "playground.js/",
        "./playground.js",
        "../pyproject.toml",
        "..%2Fpyproject.toml",
        "%2e%2e/pyproject.toml",
        "/etc/passwd",
        "playground.js%00",
        "PLAYGROUND.JS",
    ],
)
def test_there_is_no_other_file(server, name):
    answer = get(server, f"/playground/{name}")
    assert (answer.status, answer.json) == (404, {"error": "not found"})


def test_the_page_needs_no_key_where_the_routes_need_one(locked):
    assert get(locked, accept="text/html").status == 200
    assert get(locked, "/playground/playground.js").status == 200
    assert get(locked).status == 401
    assert get(locked, accept="text/html", method="POST").status == 401
    assert get(locked, "/openapi.json", "text/html").status == 401
    assert KEY not in get(locked, accept="text/html").body.decode()


@pytest.mark.parametrize("path", ["/", "/playground/playground.js"])
def test_the_page_is_for_the_servers_own_name_and_pages(serve, path):
    server = serve(Echo(), allowed_hosts=())
    assert get(server, path, "text/html").status == 200
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
        assert get(server, path, "text/html", **headers).status == 403


def test_the_page_names_its_own_files_and_nothing_else():
    page = (FOLDER / "index.html").read_text(encoding="utf-8")
    named = set(re.findall(r'(?:src|href)="([^"]*)"', page))
    scripts = [text.decode() for name, text in FILES.items() if name.endswith(".js")]
    for script in scripts:
        named |= {f"playground/{name}" for name in re.findall(r'from "\./([^"]*)"', script)}
    assert named == {f"playground/{name}" for name in FILES}
    outside = [*scripts, page, FILES["playground.css"].decode()]
    assert not any(re.search(r"https?://|url\(|@import", text) for text in outside)
    assert not re.search(r"<style|style=|<script>|\son\w+=", page)  # which the policy forbids
    assert not any(
        re.search(r"innerHTML|insertAdjacentHTML|document\.write|eval\(", text) for text in scripts
    )


def test_limits_and_defaults_are_not_written_twice():
    for name, text in FILES.items():
        if name.endswith(".js"):
            assert not re.search(r"\b(512|8192|8,192|1_?000_?000|0\.8)\b", text.decode()), name
