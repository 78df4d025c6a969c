"""What is wrong with a request, and how the answer says so."""

from __future__ import annotations

import gzip
import json

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from server_fakes import Letters, NoTokens, Recorder
from server_live import wait_for

from server.errors import RequestError
from server.generation_fields import MAX_NEW_TOKENS
from server.limits import MAX_BODY_BYTES, MAX_PROMPT_CHARACTERS
from server.request import SCHEMA, parse
from server.schema import MAX_ERRORS

CANARY = "canary7391"


def details_of(body):
    with pytest.raises(RequestError) as caught:
        parse(body if isinstance(body, bytes) else json.dumps(body).encode())
    assert caught.value.status == 422
    assert caught.value.outcome == "rejected"
    assert caught.value.body["error"] == "invalid request"
    return caught.value.body["details"]


def detail_of(body):
    (detail,) = details_of(body)
    return detail


INVALID = [
    {},
    {"prompt": ""},
    {"prompt": "x" * (MAX_PROMPT_CHARACTERS + 1)},
    {"prompt": "hi", "max_tokens": 0},
    {"prompt": "hi", "max_tokens": MAX_NEW_TOKENS + 1},
    {"prompt": "hi", "temperature": -1},
    {"prompt": "hi", "top_k": -1},
    {"prompt": "hi", "top_k": 2**70},
    {"prompt": "hi", "temperature": 1e-40},
    "not json",
]


@pytest.mark.parametrize("body", INVALID, ids=lambda body: json.dumps(body)[:40])
def test_invalid_requests_are_rejected(server, body):
    answer = server.post(body)
    assert answer.status == 422
    assert answer.json["error"] == "invalid request"
    assert answer.json["details"]
    assert answer.json["request_id"] == answer.headers["X-Request-Id"]
    assert server.generator.metrics.in_flight == 0
    assert server.counts() == {"rejected": 1}


def test_a_lone_surrogate_is_a_rejected_request(server):  # B088, B089
    answer = server.post(b'{"prompt": "\\ud800"}')
    assert answer.status == 422
    assert answer.json["details"][0]["rule"] == "unicode"
    assert server.counts() == {"rejected": 1}


@pytest.mark.parametrize(
    ("body", "detail"),
    [
        ({"prompt": 5}, {"field": "/prompt", "rule": "type", "message": "must be a string"}),
        ({}, {"field": "/prompt", "rule": "required", "message": "is required"}),
        (
            {"prompt": "a", "max_tokens": 10**9},  # B041
            {"field": "/max_tokens", "rule": "maximum", "limit": 512, "message": "must be at most 512"},
        ),
        (
            {"prompt": "a", "max_tokens": 0},
            {"field": "/max_tokens", "rule": "minimum", "limit": 1, "message": "must be at least 1"},
        ),
        (
            {"prompt": "a", "temperature": 999999},  # B082
            {"field": "/temperature", "rule": "maximum", "limit": 10, "message": "must be at most 10"},
        ),
        (
            {"prompt": "a", "temperature": 0.0009},
            {
                "field": "/temperature",
                "rule": "minimum",
                "limit": 0.001,
                "message": "must be 0 or at least 0.001",
            },
        ),
        (
            {"prompt": "a", "top_k": -1},  # B083
            {"field": "/top_k", "rule": "minimum", "limit": 0, "message": "must be at least 0"},
        ),
        (
            {"prompt": ""},
            {
                "field": "/prompt",
                "rule": "minLength",
                "limit": 1,
                "message": "must have 1 or more characters",
            },
        ),
        ([], {"field": "", "rule": "type", "message": "must be a JSON object"}),
        (
            {"prompt": "a", "stream": 1},
            {"field": "/stream", "rule": "type", "message": "must be true or false"},
        ),
    ],
    ids=lambda value: json.dumps(value)[:50],
)
def test_a_detail_names_field_rule_limit_and_message(body, detail):
    assert detail_of(body) == detail


def test_every_wrong_field_has_its_detail():
    fields = [detail["field"] for detail in details_of({"max_tokens": "5", "top_k": True, "temperature": []})]
    assert sorted(fields) == ["/max_tokens", "/prompt", "/temperature", "/top_k"]


@pytest.mark.parametrize("number", ["true", '"5"', "[]", "{}", "1.5", "1e1000", "NaN", "-Infinity"])  # T20
@pytest.mark.parametrize("field", ["max_tokens", "top_k", "seed"])
def test_what_is_no_whole_number_is_refused(field, number):
    details_of(f'{{"prompt": "a", "{field}": {number}}}'.encode())


def test_a_number_without_fraction_is_a_whole_number():  # B086
    request = parse(b'{"prompt": "a", "max_tokens": 64.0, "top_k": 5e0}')
    assert request.max_tokens == 64
    assert type(request.max_tokens) is int
    assert type(request.top_k) is int


def test_null_is_the_default_and_an_unknown_field_is_ignored():
    everything = dict.fromkeys(SCHEMA.properties)
    request = parse(json.dumps({**everything, "prompt": "a", "unknown": {"a": [1]}, "n": None}).encode())
    assert request == parse(b'{"prompt": "a"}')
    assert (request.max_tokens, request.temperature, request.top_k, request.stream) == (64, 0.8, 40, False)


def test_the_limits_are_closed():
    for body in (
        {"prompt": "x" * MAX_PROMPT_CHARACTERS, "max_tokens": MAX_NEW_TOKENS},
        {"prompt": "x", "max_tokens": 1, "temperature": 0.001, "top_k": 1_000_000, "seed": 2**64 - 1},
        {"prompt": "x", "temperature": 10, "top_k": 0, "seed": 0},
    ):
        parse(json.dumps(body).encode())


@pytest.mark.parametrize(
    ("body", "rule"),
    [
        (b"", "json"),
        (b"{", "json"),
        (b'{"prompt": "a"} x', "json"),
        (b'\xef\xbb\xbf{"prompt": "a"}', "json"),
        (b'{"x": ' + b"[" * 20000 + b"]" * 20000 + b"}", "depth"),  # T19
        (b'{"prompt": "\xff"}', "utf8"),
        (b'{"prompt": "\xed\xa0\x80"}', "utf8"),  # T18: a surrogate in UTF-8's clothes
        ('{"prompt": "a"}'.encode("utf-16"), "utf8"),  # T18
        (b'{"prompt": "a", "prompt": "b"}', "duplicate"),  # T18
        (b'{"prompt": "a", "x": {"y": 1, "y": 2}}', "duplicate"),
        (b'{"prompt": "a", "temperature": NaN}', "number"),  # B080, B085
        (b'{"prompt": "a", "temperature": Infinity}', "number"),
        (b'{"prompt": "a", "x": [1e999]}', "number"),
        (b'{"prompt": "a", "x": ["\\udc00\\ud800"]}', "unicode"),
    ],
    ids=lambda value: repr(value[:30]),
)
def test_what_is_no_strict_json_is_refused(server, body, rule):
    detail = detail_of(body)
    assert (detail["field"], detail["rule"]) == ("", rule)
    assert detail["message"]
    assert server.post(body).status == 422


@pytest.mark.parametrize(
    ("name", "digits", "rule"),
    [
        ("max_tokens", "9" * 5000, "maximum"),
        ("top_k", "-" + "9" * 5000, "minimum"),
        ("temperature", "9" * 5000, "maximum"),
        ("seed", "1" + "0" * 5000, "maximum"),
    ],
)
def test_an_integer_of_thousands_of_digits_is_out_of_range(name, digits, rule):  # T19
    detail = detail_of(f'{{"prompt": "a", "x": {digits}, "{name}": {digits}}}'.encode())
    assert (detail["field"], detail["rule"]) == (f"/{name}", rule)
    assert len(detail["message"]) < 100


def test_a_surrogate_pair_and_an_escaped_backslash_are_text():
    assert parse(b'{"prompt": "\\ud83d\\ude00"}').prompt == "\U0001f600"
    assert parse(b'{"prompt": "\\\\ud800"}').prompt == "\\ud800"


def test_any_content_type_is_read_as_json(server):
    for headers in (
        {},
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
    ):
        assert server.request("POST", "/generate", b'{"prompt": "a", "max_tokens": 1}', headers).status == 200


def test_a_compressed_body_is_no_json(server):  # T17
    body = gzip.compress(b'{"prompt": "a", "max_tokens": 1}')
    answer = server.request("POST", "/generate", body, {"Content-Encoding": "gzip"})
    assert answer.status == 422


def test_u0000_is_a_character_like_others(server):  # B100, B101
    answer = server.generate("a\0b", max_tokens=3)
    assert answer.json["text"] == "a\0b"


def canaries():
    for field in ("prompt", "max_tokens", "temperature", "top_k", "seed", "stream", "details"):
        for value in ([CANARY], {CANARY: CANARY}, CANARY * 2000):
            yield {"prompt": "a", field: value}
    yield {CANARY: 1}
    yield [CANARY]
    yield CANARY


def test_no_answer_holds_a_value_or_a_name_of_the_request(server, caplog):  # B019, B092, T21
    bodies = [json.dumps(body).encode() for body in canaries()]
    bodies += [f'{{"{CANARY}": 1, "{CANARY}": 2}}'.encode(), f'{{"prompt": "{CANARY}'.encode()]
    with caplog.at_level("DEBUG"):
        for body in bodies:
            answer = server.post(body)
            assert answer.status == 422
            assert CANARY not in answer.body.decode() + str(answer.headers)
        server.get(f"/{CANARY[:4]}?prompt={CANARY}")
        wait_for(lambda: f"GET /{CANARY[:4]}" in caplog.text)
        assert CANARY not in caplog.text


def test_the_number_of_details_is_bounded():  # B091
    assert len(details_of({name: [1] * 5000 for name in SCHEMA.properties})) <= MAX_ERRORS


def test_a_prompt_without_tokens_is_refused(serve):
    server = serve(Recorder(), NoTokens())
    answer = server.generate("a")
    assert answer.status == 422
    assert answer.json["details"] == [
        {"field": "/prompt", "rule": "tokens", "message": "must have at least 1 token"}
    ]
    assert server.is_free()
    assert server.counts() == {"rejected": 1}


def test_text_that_the_vocabulary_lacks_is_refused(serve):
    server = serve(Recorder(), Letters())
    answer = server.generate("a b")
    assert answer.status == 422
    assert answer.json["details"][0]["rule"] == "vocabulary"
    assert "0x20" not in answer.body.decode()
    assert server.is_free()
    assert server.generate("ab").status == 200


def test_a_prompt_longer_than_the_context_is_rejected(server):  # B040
    answer = server.generate("x" * 65, max_tokens=1)
    assert answer.status == 413
    assert server.counts() == {"rejected": 1}


def test_a_request_that_would_outgrow_the_context_is_rejected(server):  # B035, B037
    assert server.generate("hi", max_tokens=62).json["tokens"] == 62
    answer = server.generate("hi", max_tokens=63)
    assert answer.status == 413
    assert all(number in answer.json["error"] for number in ("2 tokens", "63", "65", "64"))
    assert server.generator.metrics.in_flight == 0
    assert server.counts() == {"ok": 1, "rejected": 1}


def test_only_what_the_request_says_reaches_the_model(serve):
    model = Recorder()
    server = serve(model)
    server.generate("ab", max_tokens=3)
    server.generate("ab", max_tokens=3, seed=7, stop_at_eos=True, temperature=0, top_k=0)
    assert model.calls == [
        {"prompt": [97, 98], "max_tokens": 3, "temperature": 0.8, "top_k": 40},
        {
            "prompt": [97, 98],
            "max_tokens": 3,
            "temperature": 0.0,
            "top_k": 0,
            "seed": 7,
        },
    ]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda children: (
        st.lists(children, max_size=4) | st.dictionaries(st.text(max_size=8), children, max_size=4)
    ),
    max_leaves=10,
)
names = st.sampled_from([*SCHEMA.properties, "other"]) | st.text(max_size=5)
bodies = st.one_of(
    st.binary(max_size=200),
    json_values.map(json.dumps).map(str.encode),
    st.dictionaries(names, json_values | st.integers(-2, 600), max_size=8).map(json.dumps).map(str.encode),
)


@given(body=bodies)
@example(b"[" * MAX_BODY_BYTES)
@example(b'{"a":' * 8000)
def test_any_body_is_a_request_or_a_refusal(body):
    try:
        request = parse(body)
    except RequestError:
        assert details_of(body)
    else:
        assert 1 <= len(request.prompt) <= MAX_PROMPT_CHARACTERS
        request.prompt.encode()
        assert type(request.max_tokens) is int
        assert 1 <= request.max_tokens <= MAX_NEW_TOKENS
        assert type(request.temperature) is float
        assert request.temperature == 0 or 0.001 <= request.temperature <= 10
        assert 0 <= request.top_k <= 1_000_000
        assert request.seed is None or 0 <= request.seed < 2**64


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=bodies)
def test_any_body_gets_an_answer_and_frees_the_slot(server, body):
    answer = server.post(body)
    assert answer.status in (200, 413, 422)
    assert json.loads(answer.body)
    assert server.is_free()
