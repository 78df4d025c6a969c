"""What a client sends is nobody's business: no log, no error and no metric holds it."""

from __future__ import annotations

import json
import logging

import pytest
from server_fakes import Broken, BrokenDecoder, BrokenTokenizer, Bytes, Echo, EndlessModel, Letters
from server_live import message, read_response, reset, wait_for

from server.logs import JsonFormatter, leave_out_requests

CANARY = "canary7391"
PROMPT = f"{CANARY} sings"


@pytest.fixture
def log(caplog):
    """Everything that is logged, by whomever, as both formats have it."""
    caplog.set_level(logging.DEBUG)

    def read():
        assert all(leave_out_requests(record) for record in caplog.records)
        lines = [JsonFormatter().format(record) for record in caplog.records]
        assert all("\n" not in line and json.loads(line) for line in lines)
        return "\n".join([*lines, *map(logging.Formatter().format, caplog.records)])

    return read


def send(server, data):
    client = server.connect()
    client.sendall(data)
    return client


def answer_to(server, data):
    with send(server, data) as client:
        client.settimeout(5)
        return read_response(client)


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_is_in_the_answer_alone(serve, log, stream):
    server = serve(Echo())
    answer = server.generate(PROMPT, max_tokens=40, stream=stream)
    assert CANARY in (answer.text if stream else answer.json["text"])
    wait_for(lambda: "POST /generate 200" in log())
    assert CANARY not in log()
    assert CANARY not in server.get("/metrics").body.decode()


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("model", "tokenizer"),
    [
        (Broken(), Bytes()),
        (Broken(tokens=3), Bytes()),
        (Echo(), BrokenTokenizer()),
        (Echo(), BrokenDecoder()),
        (Echo(), Letters()),
    ],
    ids=["model", "model, later", "encoder", "decoder", "vocabulary"],
)
def test_a_failure_does_not_show_the_prompt(serve, log, model, tokenizer, stream):
    server = serve(model, tokenizer)
    answer = server.generate(PROMPT, stream=stream)
    assert CANARY not in answer.body.decode() + str(answer.headers)
    wait_for(lambda: "POST /generate" in log())
    assert CANARY not in log()
    assert CANARY not in server.get("/metrics").body.decode()


@pytest.mark.parametrize(
    "data",
    [
        message({"prompt": PROMPT, "max_tokens": 9999}),
        message({"prompt": PROMPT * 20}),  # longer than the context
        message({CANARY: PROMPT}),
        message(f'{{"prompt": "{PROMPT}'.encode()),
        message({"prompt": PROMPT}, f"Authorization: Bearer {CANARY}", f"X-Request-Id: {CANARY} x"),
        message({"prompt": PROMPT}, f"Host: {CANARY}.example"),
        message({"prompt": PROMPT}, f"Origin: https://{CANARY}.example"),
        message({"prompt": PROMPT}, "Expect: 100-continue"),
        message({"prompt": PROMPT * 10_000}),
    ],
)
def test_a_refusal_does_not_show_the_request(serve, log, data):
    server = serve(Echo(), context=64, api_keys=("secret",) if b"Bearer" in data else ())
    try:
        answer = answer_to(server, data)
        if answer.status >= 400:
            assert CANARY not in answer.body.decode() + str(answer.headers)
    except OSError:
        assert len(data) > 100_000
    assert CANARY not in log()
    assert CANARY not in server.get("/metrics").body.decode()


@pytest.mark.parametrize(
    ("path", "field"), [("/v1/completions", "prompt"), ("/tokenize", "text"), ("/detokenize", "tokens")]
)
@pytest.mark.parametrize("tokenizer", [Bytes(), BrokenTokenizer(), BrokenDecoder(), Letters()])
def test_no_other_path_shows_what_it_was_sent(serve, log, path, field, tokenizer):
    server = serve(Echo(), tokenizer)
    for fields in ({}, {"max_tokens": -1}, {CANARY: CANARY}, {"stream": True}, {"pieces": CANARY}):
        answer = server.request("POST", path, json.dumps({field: PROMPT, **fields}))
        if answer.status >= 400:
            assert CANARY not in answer.body.decode() + str(answer.headers)
    wait_for(lambda: log().count(f"POST {path}") >= 5)
    assert CANARY not in log()


@pytest.mark.parametrize(
    "data",
    [
        message({"prompt": "hi", "max_tokens": 1}) + f"{CANARY} is no request\r\n\r\n".encode(),
        message({"prompt": "hi", "max_tokens": 1}) + f"GET / HTTP/1.1\r\n{CANARY}\r\n\r\n".encode(),
        message({"prompt": "hi", "max_tokens": 1}) + f"GET / HTTP/1.1\r\nX: {CANARY}\0\r\n\r\n".encode(),
        f"POST /generate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: {CANARY}\r\n\r\n{PROMPT}".encode(),
        f"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: {CANARY}\r\n\r\n{PROMPT}".encode(),
        f"POST /generate HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n{PROMPT}\r\n\r\n".encode(),
        f"POST /generate?{CANARY} HTTP/1.1\r\nHost: x\r\n\r\n".encode(),
        f"{CANARY}\r\n\r\n".encode(),
    ],
)
def test_what_is_no_http_is_not_shown_either(serve, log, data):
    server = serve(Echo())
    client = send(server, data)
    client.settimeout(5)
    received = b""
    try:
        while (b"422" not in received) and (chunk := client.recv(65536)):
            received += chunk
    except OSError:
        pass
    client.close()
    assert CANARY.encode() not in received
    server.get("/health")
    assert CANARY not in log()


@pytest.mark.parametrize("leave", [lambda client: client.close(), reset])
@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_is_not_quoted(serve, log, leave, stream):
    server = serve(EndlessModel())
    client = server.begin(PROMPT, stream=stream)
    wait_for(lambda: server.received > 2)
    leave(client)
    wait_for(lambda: "POST /generate 499" in log())
    assert CANARY not in log()


def test_a_line_of_json_has_what_an_operator_asks_for(serve, caplog):
    caplog.set_level(logging.INFO)
    server = serve(Echo())
    answer = server.generate("hi", max_tokens=3)
    wait_for(lambda: "POST /generate 200" in caplog.text)
    (record,) = [record for record in caplog.records if "POST /generate" in record.getMessage()]
    line = json.loads(JsonFormatter().format(record))
    assert line.pop("milliseconds") >= 0
    assert line.pop("time").endswith("+00:00")
    assert line.pop("message").startswith(answer.headers["X-Request-Id"])
    assert line == {
        "level": "INFO",
        "logger": "server.handlers",
        "request_id": answer.headers["X-Request-Id"],
        "method": "POST",
        "path": "/generate",
        "status": 200,
        "outcome": "ok",
        "prompt_tokens": 2,
        "completion_tokens": 3,
        "total_tokens": 5,
    }


def test_a_failure_has_its_id_and_traceback_in_one_line_of_json(serve, caplog):
    server = serve(Broken())
    answer = server.generate()
    (record,) = [record for record in caplog.records if record.levelname == "ERROR"]
    line = json.loads(JsonFormatter().format(record))
    assert line["request_id"] == answer.headers["X-Request-Id"]
    assert "RuntimeError: secret detail" in line["traceback"]
