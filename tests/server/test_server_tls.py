"""HTTPS, by flags."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
import socket
import ssl
import subprocess

import pytest
import server_checkpoint
import server_process
from server_live import SECONDS, wait_for

from server.arguments import Failure, parse
from server.configuration import tls_of

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """cert.pem and key.pem for 127.0.0.1, both.pem with both, locked.pem with the key under a password."""
    folder = tmp_path_factory.mktemp("tls")

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)

    names = ["-subj", "/CN=kael", "-addext", "subjectAltName=IP:127.0.0.1"]
    curve = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
    openssl("req", "-x509", *curve, "-keyout", "key.pem", "-out", "cert.pem", "-days", "2", *names)
    openssl("pkey", "-in", "key.pem", "-out", "locked.pem", "-aes256", "-passout", "pass:secret")
    (folder / "both.pem").write_bytes((folder / "cert.pem").read_bytes() + (folder / "key.pem").read_bytes())
    (folder / "junk.pem").write_text("junk")
    return folder


@pytest.fixture(scope="module")
def server(folder, tmp_path_factory):
    checkpoint = server_checkpoint.write(tmp_path_factory.mktemp("model"), layers=8, width=384)
    flags = ["--tls-certificate", folder / "cert.pem", "--tls-key", folder / "key.pem", "--idle-seconds", 1]
    with server_process.serve("--data", checkpoint, *flags) as process:
        yield process


@pytest.fixture
def connection(server, folder):
    trusting = ssl.create_default_context(cafile=folder / "cert.pem")
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=SECONDS, context=trusting)
    yield connection
    connection.close()


def ask(connection, **fields):
    connection.request("POST", "/generate", json.dumps({"prompt": "hi", **fields}))
    return connection.getresponse()


def test_it_answers_over_https(server, connection):
    assert f"https://127.0.0.1:{server.port}" in server.announcement
    answer = ask(connection, max_tokens=3)
    assert (answer.status, json.load(answer)["tokens"]) == (200, 3)
    assert ask(connection, max_tokens=3, stream=True).read().endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("trailing", [b"", b"\r\n"])
def test_a_client_that_leaves_stops_its_generation(server, connection, trailing):
    answer = ask(connection, max_tokens=512, stream=True, top_k=1)
    assert answer.readline().startswith(b"data: ")
    if trailing:
        connection.sock.sendall(trailing)
    socket.socket.shutdown(connection.sock, socket.SHUT_RDWR)
    wait_for(lambda: "POST /generate 499" in server.stderr)
    with_next = http.client.HTTPSConnection("127.0.0.1", server.port, context=connection._context)

    def is_free():
        answer = ask(with_next, max_tokens=1)
        return answer.read() and answer.status == 200

    wait_for(is_free)
    with_next.close()
    server._errors.clear()


def test_a_client_without_a_handshake_is_not_waited_for(server):
    client = server.connect()
    assert client.recv(1) == b""
    plain = server.connect()
    plain.sendall(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
    with contextlib.suppress(ConnectionResetError):
        assert b"HTTP/1.1 200" not in plain.recv(1000)
    assert "Traceback" not in server.stderr


def test_one_file_may_hold_both(folder):
    assert tls_of(parse(["--tls-certificate", str(folder / "both.pem")])).check_hostname is False
    assert tls_of(parse([])) is None


@pytest.mark.parametrize(
    ("certificate", "key", "named"),
    [
        ("absent.pem", "key.pem", "No such file"),
        ("cert.pem", "absent.pem", "No such file"),
        ("junk.pem", "key.pem", "junk.pem"),
        ("cert.pem", None, "cert.pem"),
        ("cert.pem", "locked.pem", "is encrypted"),
        (None, "key.pem", "needs --tls-certificate"),
    ],
)
def test_what_cannot_be_used_is_named_in_one_line(folder, certificate, key, named):
    flags = {"--tls-certificate": certificate, "--tls-key": key}
    arguments = [part for flag, name in flags.items() if name for part in (flag, str(folder / name))]
    with pytest.raises(Failure, match=named) as caught:
        tls_of(parse(arguments))
    assert "\n" not in str(caught.value)
