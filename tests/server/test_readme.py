"""What README.md shows is what happens, with the model that kael ships."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys

import pytest
import server_process

ROOT = server_process.ROOT
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)


def block(language: str, holding: str) -> str:
    (found,) = (text for kind, text in BLOCKS if kind == language and holding in text)
    return found


@pytest.fixture(scope="module")
def answer() -> dict:
    return json.loads(block("json", '"text"'))


@pytest.fixture(scope="module")
def server():
    with server_process.serve() as server:
        yield server


def body_of(command: str) -> str:
    words = shlex.split(command)
    return words[words.index("-d") + 1]


def test_the_first_request_is_answered_as_shown(server, answer):
    body = body_of(block("sh", "curl -s http"))
    given = server.post(body.encode()).json
    assert given["text"] == answer["text"]
    assert given["tokens"] == answer["tokens"] == json.loads(body)["max_tokens"]
    assert given["usage"] == answer["usage"]
    assert given.keys() == answer.keys()


def test_the_stream_is_the_one_shown(server):
    body = body_of(block("sh", "curl -sN http"))
    assert server.post(body.encode()).body.decode() == block("text", "data: ")


def test_the_python_example_prints_that_text(answer):
    example = block("python", "import kael")
    result = subprocess.run(
        [sys.executable, "-c", example],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=server_process.environment(),
    )
    assert result.stdout == answer["text"] + "\n"


def test_the_cpp_example_is_the_program_that_the_native_tests_run():
    assert block("cpp", "int main") == (ROOT / "tests/package/use_cpp.cpp").read_text(encoding="utf-8")
