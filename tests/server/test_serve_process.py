"""The program: its arguments, its signals, its exit codes and what it prints."""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import fcntl
import http.client
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.parse

import numpy as np
import pytest
import server_checkpoint
import server_process
from server_fakes import Hanging, Telling
from server_live import read_response, read_to_end, read_until, wait_for

import kael
from server import __version__, check, command, listening, serve
from server.__main__ import main
from server.arguments import parse

# Tornado leaves a socket that it could not bind to the garbage collector.
leaves_its_socket = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

SIGNALS = [signal.SIGTERM, signal.SIGINT]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return server_checkpoint.write(tmp_path_factory.mktemp("small"))


@pytest.fixture(scope="module")
def slow_checkpoint(tmp_path_factory):
    """A model that takes milliseconds for a token."""
    return server_checkpoint.write(tmp_path_factory.mktemp("slow"), layers=8, width=384)


def failure(capsys, *arguments):
    """Runs the program in this process: its exit code and its one line."""
    try:
        code = command.run(parse([*map(str, arguments)]))
    except SystemExit as ended:
        code = ended.code
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.endswith("\n")
    assert output.err.count("\n") == 1, output.err
    assert "Traceback" not in output.err
    return code, output.err


def test_it_says_where_it_serves_and_how_to_ask(checkpoint):
    with server_process.serve("--data", checkpoint) as server:
        line = server.announcement
        assert f"http://127.0.0.1:{server.port}" in line
        assert server.get("/health").json == {"status": "ok"}
        request = shlex.split(line[line.index("curl ") :])
        assert json.loads(request[request.index("-d") + 1])["prompt"]
        if shutil.which("curl"):
            answer = subprocess.run(request, capture_output=True, text=True, timeout=20, check=True)
            assert json.loads(answer.stdout)["tokens"] == 32
        server.signal()
        assert server.wait() == 0


def test_a_misspelt_variable_is_told(checkpoint, monkeypatch):
    monkeypatch.setenv("KAEL_SERVE_PROT", "9000")
    monkeypatch.setenv("KAEL_SERVE_QUEUE", "2")
    with server_process.serve("--data", checkpoint) as server:
        server.signal()
        assert server.wait() == 0
        assert "the variable KAEL_SERVE_PROT is no setting" in server.stderr
        assert "KAEL_SERVE_QUEUE" not in server.stderr


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_an_idle_server_with_0(checkpoint, number):
    with server_process.serve("--data", checkpoint) as server:
        server.signal(number)
        assert server.wait() == 0
        assert "Traceback" not in server.stderr


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_during_the_imports_ends_it_with_0(tmp_path, number):
    # A module that takes whatever comes out of an import for a missing package, when the signal comes.
    (tmp_path / "tornado.py").write_text(
        "import os\n"
        f"try:\n    os.kill(os.getpid(), {int(number)})\n"
        "except BaseException:\n    raise ModuleNotFoundError(name='tornado')\n"
        "raise SystemExit('the signal did nothing')\n"
    )
    result = subprocess.run(
        [sys.executable, "-m", "server"],
        env=server_process.environment((tmp_path, server_process.ROOT, server_process.ROOT / "py")),
        cwd=server_process.ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_a_signal_ends_a_stream_with_what_there_is(slow_checkpoint):
    with server_process.serve("--data", slow_checkpoint) as server:
        client = server.begin("x" * 8, max_tokens=512, stream=True, details=True, top_k=1)
        read_until(client, b"data: ")
        server.signal()
        assert server.wait() == 0
        rest = read_to_end(client)
        assert rest.endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
        assert b'"finish_reason": "shutdown"' in rest
        assert "Traceback" not in server.stderr


def test_a_killed_server_leaves_nothing_that_keeps_the_next_from_its_port(slow_checkpoint):
    with server_process.serve("--data", slow_checkpoint) as server:
        client = server.begin("x" * 8, max_tokens=512, stream=True, top_k=1)
        read_until(client, b"data: ")
        server.kill()
        arguments = ("-m", "server", "--data", slow_checkpoint, "--port", server.port)
        with server_process.Process(*arguments) as successor:
            assert successor.port == server.port
            assert successor.generate("x", max_tokens=1).status == 200


def test_a_signal_ends_a_plain_answer_with_what_there_is():
    with server_process.serve_fake("Telling") as server:
        client = server.begin(max_tokens=512, details=True)
        server.wait_for_stderr(Telling.TOLD)
        server.signal()
        assert server.wait() == 0
        answer = read_response(client)
        assert answer.status == 200
        assert answer.json["finish_reason"] == "shutdown"
        assert answer.json["tokens"] >= 1
        assert "Traceback" not in server.stderr


@pytest.mark.parametrize("number", SIGNALS)
def test_a_second_signal_ends_it_at_once_with_1(number):
    with server_process.serve_fake("Deaf") as server:
        client = server.begin(stream=True)
        read_until(client, b"data: ")
        server.signal()
        server.wait_for_stderr("shutting down")
        started = time.monotonic()
        server.signal(number)
        assert server.wait() == 1
        assert time.monotonic() - started < 5


def test_a_second_signal_ends_a_loop_that_hangs():
    with server_process.serve_fake("Echo", tokenizer="Hanging") as server:
        server.begin(max_tokens=4)
        server.wait_for_stderr(Hanging.TOLD)
        for number in SIGNALS:
            server.signal(number)
        assert server.wait() == 1


def test_a_stderr_that_nobody_reads_stops_neither_answers_nor_signals(checkpoint):
    reading, writing = os.pipe()
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 4096)
    process = subprocess.Popen(
        [sys.executable, "-m", "server", "--data", str(checkpoint), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=writing,
        env=server_process.environment(),
        cwd=server_process.ROOT,
        text=True,
    )
    os.close(writing)
    try:
        url = process.stdout.readline().split()[3]
        client = http.client.HTTPConnection(urllib.parse.urlsplit(url).netloc, timeout=20)
        for _ in range(1500):  # each is a line, of which the pipe holds 50 and the queue 1000
            client.request("GET", "/")
            assert client.getresponse().read()
        client.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.stdout.close()
        os.close(reading)


def test_a_worker_that_does_not_come_back_makes_it_end_with_1():
    with server_process.serve_fake("Deaf", shutdown_seconds=1.5) as server:
        client = server.begin(stream=True)
        read_until(client, b"data: ")
        server.signal()
        read_until(client, b'data: {"error": "generation failed"}\n\n\r\n0\r\n\r\n')
        assert server.wait() == 1
        assert "did not end within" in server.stderr


def test_help_says_what_there_is():
    result = server_process.run("--help")
    assert result.returncode == 0
    assert all(
        flag in result.stdout for flag in ("--data", "--device", "--threads", "--host", "--port", "--check")
    )
    assert "Exit codes" in result.stdout


@pytest.mark.parametrize("module", ["server", "server.arguments"])
def test_help_and_mistakes_need_the_standard_library_alone(module):
    def run(*arguments):
        return subprocess.run(
            [sys.executable, "-S", "-m", module, *arguments],  # -S: without what is installed
            cwd=server_process.ROOT,
            capture_output=True,
            text=True,
            timeout=60,
        )

    assert "--port" in run("--help").stdout
    mistake = run("--prot", "9000")
    assert (mistake.returncode, mistake.stdout) == (2, "")
    assert "--prot" in mistake.stderr
    assert mistake.stderr.count("\n") == 1


def test_help_says_that_there_is_no_cuda(capsys):
    with pytest.raises(SystemExit):
        parse(["--help"])
    assert "this build has no cuda" in " ".join(capsys.readouterr().out.split())


def test_check_loads_the_model_and_prints_an_answer(checkpoint):
    result = server_process.run("--check", "--data", checkpoint)
    assert result.returncode == 0, result.stderr
    assert check.PROMPT in result.stdout
    assert "8 tokens" in result.stdout
    assert result.stderr == ""


def test_it_serves_where_stdout_lacks_characters_of_the_models_name(checkpoint, tmp_path, monkeypatch):
    folder = tmp_path / "modèle-模型"
    folder.symlink_to(checkpoint)
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    result = server_process.run("--check", "--data", folder)
    assert (result.returncode, result.stderr) == (0, "")
    assert "mod\\xe8le-\\u6a21\\u578b" in result.stdout
    with server_process.serve("--data", folder) as server:
        assert "(mod\\xe8le-\\u6a21\\u578b, float32)" in server.announcement
        assert server.get("/health").status == 200


def test_threads_says_how_many_the_model_computes_with(capsys, checkpoint):
    threads, interval = kael.get_num_threads(), sys.getswitchinterval()
    try:
        assert command.run(parse(["--check", "--data", str(checkpoint), "--threads", str(threads + 1)])) == 0
        assert kael.get_num_threads() == threads + 1
    finally:
        kael.set_num_threads(threads)
        sys.setswitchinterval(interval)
    assert f"threads = {threads + 1}  # flag" in capsys.readouterr().out


def test_a_check_that_fails_says_why_in_one_line(tmp_path):
    folder = server_checkpoint.write(tmp_path)
    weights = server_checkpoint.weights(server_checkpoint.POSITIONS, 1, server_checkpoint.WIDTH)
    nothing = {name: np.full_like(tensor, np.nan) for name, tensor in weights.items()}
    server_checkpoint.write_safetensors(folder / "model.safetensors", nothing)
    result = server_process.run("--check", "--data", folder)
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1, result.stderr
    assert "answered 500" in result.stderr
    assert "is NaN" in result.stderr


def test_version(capsys):
    assert command.run(parse(["--version"])) == 0
    assert f"kael-server {__version__}, kael {__version__}" in capsys.readouterr().out


def test_the_version_is_the_projects():
    assert (server_process.ROOT / "VERSION").read_text().strip() == __version__


@leaves_its_socket
def test_an_occupied_port_is_named_with_what_to_do(capsys, checkpoint):
    with socket.create_server(("127.0.0.1", 0)) as occupant:
        port = occupant.getsockname()[1]
        code, line = failure(capsys, "--data", checkpoint, "--port", port)
    assert code == 1
    assert f"port {port} of 127.0.0.1 is in use" in line
    assert "--port" in line


# Who may open which port depends on the system and the user.
def test_a_port_that_is_not_permitted_is_named_with_what_to_do(capsys, checkpoint, monkeypatch):
    def refuse(port, host):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(listening, "bind_sockets", refuse)
    code, line = failure(capsys, "--data", checkpoint, "--port", 80)
    assert code == 1
    assert "port 80 of 127.0.0.1 is not permitted, expected one from 1024 on" in line


def test_an_occupied_port_ends_the_process_with_one_line(checkpoint):
    with socket.create_server(("127.0.0.1", 0)) as occupant:
        result = server_process.run("--data", checkpoint, "--port", occupant.getsockname()[1])
    assert result.returncode == 1
    assert result.stdout == ""
    assert len(result.stderr.splitlines()) == 1


@leaves_its_socket
@pytest.mark.parametrize("host", ["203.0.113.1", "no.such.host.invalid", "1.2.3.4.5"])
def test_an_address_of_somewhere_else_is_refused(capsys, checkpoint, host):
    code, line = failure(capsys, "--data", checkpoint, "--port", 0, "--host", host)
    assert code == 1
    assert host in line


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["--port", "65536"], "65536"),
        (["--port", "-1"], "-1"),
        (["--port", "http"], "http"),
        (["--port", "9" * 5000], "--port"),
        (["--port", "0" * 20 + "99999"], "99999"),
        (["--device", "tpu"], "tpu"),
        (["--unknown"], "--unknown"),
        (["--che"], "--che"),  # no abbreviations: the next version's flags would change what they mean
        (["surplus"], "surplus"),
        (["--data"], "--data"),
        (["--host", ""], "--host"),
    ],
)
def test_wrong_arguments_end_it_with_2_and_one_line(capsys, arguments, named):
    code, line = failure(capsys, *arguments)
    assert code == 2
    assert named in line
    assert "--help" in line


def test_a_device_that_is_not_there_is_an_error(capsys, checkpoint):
    code, line = failure(capsys, "--data", checkpoint, "--device", "cuda")
    assert code == 1
    assert "cuda" in line


def remove_everything(folder):
    shutil.rmtree(folder)


def remove_tokenizer(folder):
    (folder / "vocab.json").unlink()


def remove_weights(folder):
    (folder / "model.safetensors").unlink()


def truncate_weights(folder):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:5000])


def garble_header(folder):
    path = folder / "model.safetensors"
    path.write_bytes(b"\xff" * 5000)


def contradict_configuration(folder):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "n_layer": 3}))


def garble_merges(folder):
    (folder / "merges.txt").write_text("#version: 0.2\nnot in the vocabulary\n")


def break_link(folder, name):
    (folder / name).unlink()
    (folder / name).symlink_to("elsewhere")


@pytest.mark.parametrize("name", ["config.json", "model.safetensors"])
def test_a_link_to_nowhere_is_not_a_file_that_is_absent(capsys, tmp_path, name):
    folder = server_checkpoint.write(tmp_path / "model")
    break_link(folder, name)
    code, line = failure(capsys, "--data", folder, "--port", 0)
    assert code == 1
    assert f"cannot open {folder / name}" in line
    assert "a link to elsewhere" in line


@pytest.mark.parametrize(
    ("damage", "named"),
    [
        (remove_everything, "no folder"),
        (remove_tokenizer, "vocab.json"),
        (remove_weights, "model.safetensors"),
        (truncate_weights, "model.safetensors"),
        (garble_header, "model.safetensors"),
        (contradict_configuration, "h.1"),
        (garble_merges, "merges.txt"),
    ],
)
def test_a_damaged_model_is_one_line_and_1(capsys, tmp_path, damage, named):
    folder = server_checkpoint.write(tmp_path / "model")
    damage(folder)
    code, line = failure(capsys, "--data", folder, "--port", 0)
    assert code == 1
    assert named in line


def test_a_package_that_is_missing_is_named(capsys, monkeypatch):
    before = {number: signal.getsignal(number) for number in SIGNALS}
    monkeypatch.delitem(sys.modules, "server.command")
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    monkeypatch.delitem(sys.modules, "server.app", raising=False)
    monkeypatch.delitem(sys.modules, "server.generate", raising=False)
    monkeypatch.delitem(sys.modules, "server.generator", raising=False)
    monkeypatch.delitem(sys.modules, "server.metrics", raising=False)
    try:
        assert main([]) == 1
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert "prometheus_client is missing" in capsys.readouterr().err


@pytest.mark.parametrize("host", ["a..b", "x" * 300])
def test_a_host_that_is_no_name_is_one_line(capsys, checkpoint, host):
    code, line = failure(capsys, "--data", checkpoint, "--host", host)
    assert code == 1
    assert "expected an address of this machine" in line


@pytest.mark.parametrize("folder", ["a" * 300, "x\ny"])
def test_a_folder_that_cannot_be_is_one_line(capsys, folder):
    code, line = failure(capsys, "--data", folder)
    assert code == 1
    assert "is no folder" in line


def test_an_empty_folder_name_is_not_the_shipped_model(capsys):
    code, line = failure(capsys, "--data", "")
    assert code == 2
    assert "empty" in line


@pytest.mark.parametrize("content", [None, b"", b"\n\n", b"two words\n", b"\xff\n"])
def test_a_file_without_keys_is_refused(capsys, checkpoint, tmp_path, content):
    file = tmp_path / "keys"
    if content is not None:
        file.write_bytes(content)
    code, line = failure(capsys, "--data", checkpoint, "--api-key-file", file)
    assert code == 1
    assert str(file) in line
    assert "words" not in line


def test_keys_come_from_a_file_too_and_are_shown_nowhere(checkpoint, tmp_path):
    (tmp_path / "keys").write_text("key-1\n\n  key-2  \n")
    flags = ["--data", checkpoint, "--api-key-file", tmp_path / "keys", "--api-key", "key-3"]
    check = server_process.run("--check", *flags)
    assert check.returncode == 0, check.stderr
    assert "# api-key is set  # flag" in check.stdout
    with server_process.serve(*flags) as server:
        assert "-H 'Authorization: Bearer KEY'" in server.announcement
        for key, status in {"key-1": 200, "key-2": 200, "key-3": 200, "key-4": 401}.items():
            headers = {"Authorization": f"Bearer {key}"}
            assert server.request("GET", "/metrics", headers=headers).status == status
        server.signal()
        assert server.wait() == 0
        shown = check.stdout + server.announcement + server.stderr
        assert not [key for key in ("key-1", "key-2", "key-3", "key-4") if key in shown]


@pytest.mark.parametrize(
    ("flags", "warns", "foreign"),
    [
        ([], False, 403),
        (["--host", "127.1"], False, 403),
        (["--allowed-host", "evil.example"], False, 200),
        (["--allowed-host", "*"], False, 200),
        (["--host", "0.0.0.0"], True, 200),
        (["--host", "0.0.0.0", "--allowed-host", "good.example"], True, 403),
        (["--host", "0.0.0.0", "--api-key", "secret"], False, 401),
    ],
)
def test_beyond_loopback_it_warns_and_on_loopback_it_checks_the_host(checkpoint, flags, warns, foreign):
    with server_process.serve("--data", checkpoint, *flags) as server:
        assert server.request("GET", "/", headers={"Host": "evil.example:8000"}).status == foreign
        server.signal()
        assert server.wait() == 0
        assert ("ANYBODY" in server.stderr) == warns


def test_the_log_is_of_json_on_request_and_holds_nothing_of_a_bad_request(checkpoint):
    with server_process.serve("--data", checkpoint, "--log-format", "json") as server:
        client = server.connect()
        client.sendall(b"POST /generate HTTP/1.1\r\nHost: x\r\nContent-Length: canary7391\r\n\r\n")
        assert read_to_end(client).startswith(b"HTTP/1.1 400 ")
        assert server.generate("canary7391", max_tokens=3).status == 200
        server.signal()
        assert server.wait() == 0
        lines = [json.loads(line) for line in server.stderr.splitlines()]
        assert [line["message"] for line in lines if line["logger"] == "tornado.general"]
        assert [line["status"] for line in lines if line.get("path") == "/generate"] == [400, 200]
        assert "canary7391" not in server.stderr


def test_nothing_listens_while_the_model_loads(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    loading, loaded = tmp_path / "loading", tmp_path / "loaded"
    script = f"""
import pathlib, sys, time
import server.command
from server import Generator, create_app
from server.__main__ import main
from server_fakes import Bytes, Echo
def load(folder, device, settings, dtype):
    pathlib.Path({str(loading)!r}).touch()
    while not pathlib.Path({str(loaded)!r}).exists():
        time.sleep(0.01)
    return create_app(Generator(Echo(), Bytes()), settings)
server.command.load_app = load
sys.exit(main(["--data", ".", "--port", "{port}"]))
"""
    with concurrent.futures.ThreadPoolExecutor() as starting:
        start = starting.submit(server_process.Process, "-c", script)
        try:
            wait_for(loading.exists)
            assert not is_listening(port)
        finally:
            loaded.touch()
        with start.result() as process:
            assert process.get("/ready").status == 200


def test_a_vocabulary_beyond_the_model_is_refused(capsys, tmp_path):
    folder = server_checkpoint.write(tmp_path)
    vocabulary = json.loads((folder / "vocab.json").read_text())
    vocabulary["<beyond>"] = 5900
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    code, line = failure(capsys, "--data", folder)
    assert code == 1
    assert "5900" in line


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_stdout_does_not_end_the_server(checkpoint):
    with open("/dev/full", "w") as full, socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        process = subprocess.Popen(
            [sys.executable, "-m", "server", "--data", str(checkpoint), "--port", str(port)],
            stdout=full,
            stderr=subprocess.PIPE,
            env=server_process.environment(),
            cwd=server_process.ROOT,
            text=True,
        )
        try:
            wait_for(lambda: is_listening(port) or process.poll() is not None)
            process.send_signal(signal.SIGTERM)
            _, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert "Traceback" not in errors


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_check_on_a_full_disk_fails_in_one_line(checkpoint):
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "server", "--check", "--data", str(checkpoint)],
            stdout=full,
            stderr=subprocess.PIPE,
            env=server_process.environment(),
            cwd=server_process.ROOT,
            text=True,
            timeout=60,
        )
    assert result.returncode == 1
    assert result.stderr.count("\n") == 1, result.stderr
    assert "cannot write the answer to stdout: No space left on device" in result.stderr


def test_what_was_asked_for_without_a_stdout_is_one_line(capsys, monkeypatch):
    monkeypatch.setattr(
        sys, "stdout", None
    )  # as Python has it where the descriptor was closed from the start
    with pytest.raises(SystemExit) as ended:
        parse(["--help"])
    assert ended.value.code == 1
    assert (
        capsys.readouterr().err == "python -m server: cannot write to standard output: Bad file descriptor\n"
    )


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
@pytest.mark.parametrize("module", ["server", "server.arguments"])
@pytest.mark.parametrize("flag", ["--help", "--version"])
def test_help_on_a_full_disk_is_one_line(module, flag):
    for unbuffered in ("", "1"):
        with open("/dev/full", "w") as full:
            result = subprocess.run(
                [sys.executable, "-m", module, flag],
                stdout=full,
                stderr=subprocess.PIPE,
                env={**server_process.environment(), "PYTHONUNBUFFERED": unbuffered},
                cwd=server_process.ROOT,
                text=True,
                timeout=60,
            )
        assert result.returncode == 1
        assert result.stderr == "python -m server: cannot write to standard output: No space left on device\n"


def is_listening(port):
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.parametrize("limit", [6, 9, 14])
def test_too_few_descriptors_are_one_line_at_once(checkpoint, limit):
    limited = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, ({limit}, {limit}));"
        "from server.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    result = server_process.run("--data", checkpoint, "--check", program=("-c", limited))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1, result.stderr
    assert "Too many open files" in result.stderr


def test_a_thread_that_cannot_be_started_is_one_line(checkpoint):
    script = """
import sys, threading
from server.__main__ import main
def refuse(_):
    raise RuntimeError("can't start new thread")
threading.Thread.start = refuse
sys.exit(main(sys.argv[1:]))
"""
    result = server_process.run("--data", checkpoint, "--port", 0, program=("-c", script))
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1, result.stderr
    assert "no thread could be started" in result.stderr


def test_a_rest_may_outlast_the_listening_socket(monkeypatch):
    """A shutdown closes it."""
    monkeypatch.setattr(serve, "BREATH_SECONDS", 0.01)
    failures = []

    async def rest():
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: failures.append(context))
        listening = socket.create_server(("127.0.0.1", 0))
        serve._Breather([listening])(loop, {"exception": OSError(errno.EMFILE, "Too many open files")})
        listening.close()
        await asyncio.sleep(0.05)

    asyncio.run(rest())
    assert failures == []


def test_out_of_descriptors_it_rests_and_recovers(checkpoint):
    """Tornado alone logs a traceback on every turn of the loop, and never rests."""
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (24, 24));"
        "from server.__main__ import main; sys.exit(main(sys.argv[1:]))"
    )
    with server_process.Process("-c", limited, "--data", checkpoint, "--port", "0") as server:
        for _ in range(40):
            server.connect()
        server.wait_for_stderr("no new connections for")
        server.close_clients()
        wait_for(lambda: server.generate(max_tokens=2).status == 200)
        server.signal()
        assert server.wait() == 0
        assert 1 <= server.stderr.count("no new connections for") <= 10  # one line for each rest
        assert "Traceback" not in server.stderr
