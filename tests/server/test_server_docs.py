"""What docs/server.md shows is what happens, and docs/operation.md names what there is."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import sys

import pytest
import server_checkpoint
import server_process

from server import errors, limits
from server.metrics import OUTCOMES, Metrics
from server.options import OPTIONS
from server.request import SCHEMA

PAGE = (server_process.ROOT / "docs" / "server.md").read_text(encoding="utf-8")
OPERATION = (server_process.ROOT / "docs" / "operation.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```(\w+)\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with server_process.serve("--data", server_checkpoint.write(tmp_path_factory.mktemp("docs"))) as process:
        yield process


def shape(value):
    """The names in a JSON value, without what they stand for."""
    if isinstance(value, dict):
        return {name: shape(item) for name, item in value.items()}
    return [shape(item) for item in value] if isinstance(value, list) else None


CURL_EXAMPLES = [
    pytest.param(command, answer, id=command[:60].strip())
    for (language, command), (_, answer) in itertools.pairwise(BLOCKS)
    if language == "sh" and command.startswith("curl ")
]


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.parametrize(("command", "answer"), CURL_EXAMPLES)
def test_the_curl_examples_answer_as_shown(server, command, answer):
    command = command.replace("localhost:8000", f"127.0.0.1:{server.port}")
    result = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=True)
    if answer.startswith("data: "):
        assert result.stdout.startswith("data: {")
        assert result.stdout.endswith("data: [DONE]\n\n")
    else:
        assert shape(json.loads(result.stdout)) == shape(json.loads(answer))


def test_the_python_client_prints_a_text(server):
    (client,) = (code for language, code in BLOCKS if language == "python" and "http.client" in code)
    client = client.replace('"localhost", 8000', f'"127.0.0.1", {server.port}')
    result = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", client], capture_output=True, timeout=60, check=True
    )
    assert result.stdout


def test_the_official_clients_example_prints_a_text(server):
    pytest.importorskip("openai", reason="openai, the official client, is not installed")
    (client,) = (code for language, code in BLOCKS if language == "python" and "import openai" in code)
    client = client.replace("localhost:8000", f"127.0.0.1:{server.port}")
    result = subprocess.run(
        [sys.executable, "-X", "utf8", "-c", client], capture_output=True, timeout=60, check=True
    )
    assert result.stdout


def test_the_embedding_example_serves(serve):
    (example,) = (code for language, code in BLOCKS if language == "python" and "create_app" in code)
    names = {}
    exec(example, names)
    generator = names["app"].generator
    server = serve(generator.model, generator.tokenizer)
    assert server.generate("abc", max_tokens=5).json["text"] == "ABCAB"


def test_every_flag_is_described_with_its_default():
    rows = dict(re.findall(r"^\| `--([\w-]+)[^|]*\| `?([^|`]*)`? *\|", OPERATION, re.MULTILINE))
    assert set(rows) == {option.name for option in OPTIONS} | {"config", "check", "version"}
    for option in OPTIONS:
        default = f"{option.default:g}" if isinstance(option.default, float) else str(option.default)
        default = "off" if option.is_flag else default
        assert option.default is None or rows[option.name].strip() == default


def test_the_limits_are_the_ones_in_the_code():
    for number in (limits.MAX_PROMPT_CHARACTERS, limits.MAX_BODY_BYTES):
        assert f"{number:,}" in PAGE
    rows = re.findall(r"^\| `(\w+)` (\|.*)$", PAGE, re.MULTILINE)
    for name, rules in SCHEMA.properties.items():
        if name != "seed":  # whose limit is written as a power
            for limit in ("maximum", "maxItems", "maxLength", "maxProperties"):
                of_name = " ".join(row for other, row in rows if other == name)
                assert limit not in rules or re.search(rf"\b{rules[limit]:,}\b", of_name), (name, limit)
    rows = dict(re.findall(r"^\| `(\w+)` \| ([^|]*) \| ", PAGE, re.MULTILINE))
    for name, rules in SCHEMA.properties.items():
        default = rules.get("default")
        if default is not None:
            assert json.loads(rows[name].strip(" `")) == default, name
        else:
            assert name in rows


def test_every_metric_is_described_with_its_type_and_labels():
    described = set(re.findall(r"^\| `(kael_\w+)(?:\{\w+\})?` \| (\w+) \|", OPERATION, re.MULTILINE))
    page = Metrics().render("")[0].decode()
    assert described == set(re.findall(r"^# TYPE (\w+) (\w+)$", page, re.MULTILINE))
    labels = (*OUTCOMES, *errors.BUSY_REASONS, *errors.REJECTED_REASONS)
    assert all(f"`{label}`" in OPERATION for label in labels)
