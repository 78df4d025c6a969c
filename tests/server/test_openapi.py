"""GET /openapi.json describes the server that answers."""

from __future__ import annotations

import json

import jsonschema
import pytest
import server_checkpoint
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from server_fakes import Echo
from server_live import Server

from server import Generator, load_app
from server.routes import ROUTES
from server.settings import Settings

BODIES = {
    "/generate": [
        {"prompt": "hello", "max_tokens": 3},
        {"prompt": "hello", "max_tokens": 2, "logprobs": 2, "echo": True, "stop": ["x"]},
        {"prompt": "hello", "max_tokens": 2, "stream": True},
        {"prompt": "hello", "max_tokens": 0},
        {"prompt": "hello" * 300},
        [],
    ],
    "/v1/completions": [
        {"prompt": "hello", "max_tokens": 3, "logprobs": 1},
        {"prompt": [1, 2], "max_tokens": 0, "echo": True, "logprobs": 0},
        {"prompt": "hello", "stream": True},
        {"prompt": "hello", "n": 2},
        {"prompt": "hello" * 300},
    ],
    "/tokenize": [{"text": "hello", "pieces": True}, {"text": 5}],
    "/detokenize": [{"tokens": [1, 2], "pieces": True}, {"tokens": [500]}],
}


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return load_app(server_checkpoint.write(tmp_path_factory.mktemp("models") / "tiny"), "cpu").generator


@pytest.fixture
def real(loaded):
    """A server of a small checkpoint."""
    generator = Generator(loaded.model, loaded.tokenizer, context=loaded.context, name=loaded.name)
    server = Server(generator, Settings())
    yield server
    server.close()
    server.close_clients()


@pytest.fixture
def document(real):
    return real.get("/openapi.json").json


def test_every_route_that_takes_a_body_is_tried_with_one():
    assert set(BODIES) == {route.path for route in ROUTES if route.body}


def assert_described(document, path, method, answer):
    """Status, content type and body of an answer are what the document says of them."""
    response = document["paths"][path][method.lower()]["responses"][str(answer.status)]
    kind = answer.headers["Content-Type"].partition(";")[0]
    described = response["content"][kind]
    if kind == "application/json":
        schema = described["schema"]
        jsonschema.Draft202012Validator({**schema, "components": document["components"]}).validate(
            answer.json
        )


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_answer_is_described(real, document, route):
    path = route.path.format(name="tiny")
    for body in BODIES.get(route.path, [None]):
        data = None if body is None else json.dumps(body).encode()
        answer = real.request(route.method, path, data)
        assert_described(document, route.path, route.method, answer)
    if route.method == "POST":
        assert_described(document, route.path, "POST", real.request("POST", path, b"{"))


values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 600) | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@pytest.mark.parametrize("route", [route for route in ROUTES if route.body], ids=lambda route: route.path)
@given(data=st.data())
def test_any_body_gets_an_answer_that_is_described(real, document, route, data):
    names = st.sampled_from(list(route.body.properties)) | st.text(max_size=5)
    start = dict.fromkeys(route.body.document["required"], "hello") if data.draw(st.booleans()) else {}
    body = {**start, **data.draw(st.dictionaries(names, values, max_size=5))}
    answer = real.request("POST", route.path, json.dumps(body).encode())
    assert answer.status in (200, 413, 422)
    assert_described(document, route.path, "POST", answer)
    assert real.is_free()


def test_an_unknown_model_is_described(real, document):
    assert_described(document, "/v1/models/{name}", "GET", real.get("/v1/models/other"))


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_route_tells_its_methods(real, route):
    path = route.path.format(name="tiny")
    answer = real.request("OPTIONS", path)
    assert answer.status == 204
    assert route.method in answer.headers["Allow"].split(", ")
    refused = real.request("PATCH", path)
    assert (refused.status, refused.headers["Allow"]) == (405, answer.headers["Allow"])


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_null_is_described_where_it_stands_for_the_default(real, route):
    for body in BODIES.get(route.path, [])[:1]:
        optional = set(route.body.properties) - set(route.body.document["required"])
        nulls = {**body, **dict.fromkeys(optional)}
        jsonschema.Draft202012Validator(route.body.document).validate(nulls)
        assert real.request(route.method, route.path, json.dumps(nulls).encode()).status == 200


@pytest.mark.parametrize("path", [route.path for route in ROUTES if route.body is not None])
def test_bodies_are_described_by_the_schema_that_checks_them(document, path):
    (schema,) = [route.body.document for route in ROUTES if route.path == path]
    described = document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert {"$schema": schema["$schema"], **described} == schema


def test_every_route_is_in_the_document_and_no_other(document):
    described = {(method.upper(), path) for path, methods in document["paths"].items() for method in methods}
    assert described == {(route.method, route.path) for route in ROUTES}
    assert document["openapi"] == "3.1.0"


def test_every_schema_in_it_is_one(document):
    def check(value):
        if isinstance(value, dict):
            if "schema" in value:
                jsonschema.Draft202012Validator.check_schema(value["schema"])
            for item in value.values():
                check(item)
        elif isinstance(value, list):
            for item in value:
                check(item)

    check(document)


def test_a_key_is_described_where_one_is_needed(serve, document):
    assert "security" not in document
    server = serve(Echo(), api_keys=("secret",))
    answer = server.get("/openapi.json", Authorization="Bearer secret")
    assert answer.json["security"] == [{"key": []}]
    assert server.get("/openapi.json").status == 401
