"""python -m kael download, from a hub on this machine."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

import kael
from kael import _download

pytest.importorskip(
    "huggingface_hub", reason="the package huggingface_hub, which downloads, is not installed"
)


class Hub(ThreadingHTTPServer):
    """Serves files as the hub does: at /OWNER/NAME/resolve/REVISION/FILE, with the digest as entity tag."""

    def __init__(self, files):
        super().__init__(("127.0.0.1", 0), Answer)
        self.files = files
        self.gets = []


class Answer(BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.answer(False)

    def do_GET(self):
        self.server.gets.append(self.path)
        self.answer(True)

    def answer(self, with_body):
        content = self.server.files.get(self.path.split("/")[-1])
        if content is None:
            self.send_error(404)
            return
        self.send_response(200)
        self.send_header("ETag", f'"{hashlib.sha256(content).hexdigest()}"')
        self.send_header("X-Repo-Commit", "0" * 40)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_body:
            self.wfile.write(content)

    def log_message(self, *_):
        pass


@pytest.fixture
def files(shared):
    tokenizer = shared / "data" / "tokenizer-gpt2"
    return {
        "vocab.json": (tokenizer / "vocab.json").read_bytes(),
        "merges.txt": (tokenizer / "merges.txt").read_bytes(),
        "config.json": b"{}",
        "model.safetensors": b"\2\0\0\0\0\0\0\0{}",
    }


@pytest.fixture
def hub(files):
    with Hub(files) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def download(*arguments, endpoint, home):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
        "HF_ENDPOINT": endpoint,
        "HF_HOME": str(home),
        "HF_HUB_DISABLE_PROGRESS_BARS": "1",
        "HF_HUB_DISABLE_TELEMETRY": "1",
    }
    command = [sys.executable, "-m", "kael", "download", *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)


def address(hub):
    return f"http://127.0.0.1:{hub.server_port}"


@pytest.mark.parametrize(
    ("name", "path"), [("gpt2-xl", "openai-community/gpt2-xl"), ("distilgpt2", "distilbert/distilgpt2")]
)
def test_a_model_is_downloaded_once(hub, files, tmp_path, name, path):
    for _ in range(2):
        done = download(name, "--to", tmp_path / "model", endpoint=address(hub), home=tmp_path / "home")
        assert done.returncode == 0, done.stderr
        assert str(tmp_path / "model") in done.stdout
    assert {file: (tmp_path / "model" / file).read_bytes() for file in files} == files
    assert sorted(hub.gets) == sorted(f"/{path}/resolve/main/{file}" for file in files)


@pytest.mark.parametrize("file", ["vocab.json", "merges.txt"])
def test_a_tokenizer_that_is_not_gpt2s_is_refused(hub, tmp_path, file):
    hub.files[file] += b"\n"
    done = download("gpt2", "--to", tmp_path / "model", endpoint=address(hub), home=tmp_path / "home")
    assert done.returncode == 1
    assert f"{file} of openai-community/gpt2 is not GPT-2's: its SHA-256 is" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not (tmp_path / "model" / file).exists()


def test_a_file_that_the_hub_lacks_is_named(hub, tmp_path):
    del hub.files["model.safetensors"]
    done = download("gpt2", "--to", tmp_path / "model", endpoint=address(hub), home=tmp_path / "home")
    assert done.returncode == 1
    assert "cannot download model.safetensors of openai-community/gpt2" in done.stderr
    assert (tmp_path / "model" / "vocab.json").exists()


def test_without_a_network_it_says_so(tmp_path):
    done = download("gpt2", "--to", tmp_path / "model", endpoint="http://127.0.0.1:9", home=tmp_path / "home")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert (
        "http://127.0.0.1:9 cannot be reached: [Errno 111] Connection refused; without a network"
        in done.stderr
    )
    assert not (tmp_path / "model").exists()


def test_an_address_that_is_none_is_refused(tmp_path):
    done = download("gpt2", "--to", tmp_path / "model", endpoint="file:///etc", home=tmp_path)
    assert done.returncode == 1
    assert "HF_ENDPOINT is 'file:///etc', expected an address" in done.stderr


def test_another_model_is_refused(tmp_path):
    done = download("gpt3", "--to", tmp_path / "model", endpoint="http://127.0.0.1:9", home=tmp_path)
    assert done.returncode == 2
    assert "gpt2-medium" in done.stderr


def test_without_the_package_it_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(kael.Error, match=r"needs the package huggingface_hub: pip install huggingface_hub$"):
        _download.download("gpt2", tmp_path)


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(kael.Error, match=r"cannot make the folder .*file/x: Not a directory"):
        _download.download("gpt2", tmp_path / "file" / "x")
