"""The scripts: what they say, when they say it, and what they leave alone."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time

import pytest
from server_live import SECONDS
from server_process import ROOT, environment

from server import __version__

SCRIPTS = [
    path
    for path in sorted((ROOT / "scripts").rglob("*"))
    if path.is_file() and path.read_bytes().startswith((b"#!/usr/bin/env bash", b"# shellcheck"))
]


# Without the sanitizer's runtime that the tests of a sanitized library preload: no script loads that library.
ENVIRONMENT = {
    **{name: value for name, value in os.environ.items() if name != "LD_PRELOAD"},
    "KAEL_NO_INSTALL": "1",
}


@pytest.fixture
def checkout(tmp_path):
    """The scripts and the server of a checkout with nothing installed, nothing built and no way to do it."""
    shutil.copytree(ROOT / "scripts", tmp_path / "scripts")
    shutil.copytree(
        ROOT / "server", tmp_path / "server", ignore=lambda _, names: {"requirements.txt"} & {*names}
    )
    return tmp_path


def run(*command, env=ENVIRONMENT, **options):
    return subprocess.run(
        [*map(str, command)], env=env, capture_output=True, text=True, timeout=3 * SECONDS, **options
    )


def shell(checkout, text, **options):
    """Runs shell commands after those of scripts/lib/environment.sh."""
    library = checkout / "scripts/lib/environment.sh"
    return run("bash", "-c", f". {library}\n{text}", **options)


def test_help_is_answered_before_anything_is_installed_or_built(checkout):
    for script, flag in (
        ("serve", "--port"),
        ("bench", "--depths"),
        ("compare-peers", "--dtypes"),
        ("measure-cancellation", "--rounds"),
        ("measure-serving", "--tokens"),
        ("stress-server", "--connections"),
        ("fuzz-server", "--minutes"),
        ("test", "--server"),
        ("verify", "tsan"),
        ("verify workflows", "tsan"),
    ):
        script, *arguments = script.split()
        result = run(checkout / "scripts" / script, *arguments, "--help", cwd="/")
        assert (result.returncode, result.stderr) == (0, ""), script
        assert flag in result.stdout, script
    assert not (checkout / ".venv").exists()
    assert os.listdir(checkout / "build") == ["log"]


@pytest.mark.parametrize(
    "script",
    [
        path
        for path in (ROOT / "scripts").iterdir()
        if path.is_file() and b"python3" in path.read_bytes()[:40]
    ],
    ids=lambda path: path.name,
)
def test_scripts_in_python_find_the_package_of_their_checkout(script):
    nothing = {name: value for name, value in ENVIRONMENT.items() if name != "PYTHONPATH"}
    result = run(sys.executable, script, "--help", cwd="/", env=nothing)
    assert (result.returncode, result.stderr) == (0, "")
    assert script.name in result.stdout


def test_a_script_in_python_says_where_the_packages_are_that_it_needs(checkout):
    result = run(sys.executable, "-S", checkout / "scripts/bench-tokenizer", "--help", env=ENVIRONMENT)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (1, "", 1)
    assert "kael needs numpy" in result.stderr
    assert "scripts/test makes .venv with it" in result.stderr


def test_ci_takes_no_arguments(checkout):
    shutil.copytree(ROOT / ".ci", checkout / ".ci")
    helped = run(checkout / ".ci/run", "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert "Takes no arguments" in helped.stdout
    refused = run(checkout / ".ci/run", "--quick")
    assert (refused.returncode, refused.stderr) == (2, ".ci/run: --quick is unknown, expected no argument\n")


def test_a_checkout_that_cannot_be_written_is_named(checkout):
    (checkout / "build").mkdir()
    (checkout / "build/log").write_text("")  # no folder can be made there, not by root either
    result = shell(checkout, "prepare serve serve")
    assert (result.returncode, result.stdout) == (1, "")
    assert f"cannot write to {checkout}/build, expected a folder to build in" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.skipif(shutil.which("flock") is None, reason="no flock here, so scripts do not wait")
def test_a_script_that_waits_for_another_says_so(checkout):
    (checkout / "build").mkdir(exist_ok=True)
    script = f". {checkout}/scripts/lib/environment.sh; has_python() {{ exit 0; }}; prepare none serve"
    with open(checkout / "build/.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with subprocess.Popen(
            ["bash", "-c", script], env=ENVIRONMENT, stderr=subprocess.PIPE, text=True
        ) as waiting:
            assert waiting.stderr.readline().startswith("Waiting for another script in this checkout")
            fcntl.flock(lock, fcntl.LOCK_UN)
            assert waiting.wait(SECONDS) == 0


def test_a_wrong_argument_is_refused_before_anything_is_installed_or_built(checkout):
    for script, argument in (
        ("serve", "--prot"),
        ("format", "--chekc"),
        ("verify", "asna"),
        ("verify", ""),
        ("verify", "workflows --quick"),
        ("test", "--pyton"),
    ):
        result = run(checkout / "scripts" / script, *argument.split(" "), cwd="/")
        assert (result.returncode, result.stdout) == (2, ""), script
        assert argument.split(" ")[-1] in result.stderr
        assert result.stderr.count("\n") == 1
    assert not (checkout / ".venv").exists()
    assert os.listdir(checkout / "build") == ["log"]


@pytest.mark.parametrize(
    ("arguments", "code", "named"),
    [
        (["--data", "absent"], 1, "absent is no folder"),
        (["--device", "cuda"], 1, "cuda"),
        (["--version"], 0, f"kael-server {__version__}, kael {__version__}"),
    ],
)
def test_what_arguments_alone_decide_is_answered_before_the_build(checkout, arguments, code, named):
    (checkout / "current").mkdir()
    result = run(checkout / "scripts/serve", *arguments, cwd=checkout / "current")
    assert result.returncode == code
    said, silent = (result.stdout, result.stderr) if code == 0 else (result.stderr, result.stdout)
    assert named in said
    assert (said.count("\n"), silent) == (1, "")
    assert os.listdir(checkout / "build") == ["log"]


def test_a_folder_is_looked_for_from_where_the_server_is_started(checkout):
    (checkout / "current" / "model").mkdir(parents=True)
    with open(checkout / "scripts/lib/environment.sh", "a") as library:
        library.write("prepare() { say preparing; exit 0; }\n")
    result = run(checkout / "scripts/serve", "--data", "model", cwd=checkout / "current")
    assert result.stderr == "preparing\n"


@pytest.mark.parametrize(
    ("arguments", "passed_on"),
    [
        (["-k", "name", "--lf"], "-k name --lf"),
        (["--", "--lf"], "--lf"),
        (["--server", "--", "--lf"], "tests/server --lf"),
        (["tests/py/test_x.py", "--server"], "tests/server tests/py/test_x.py"),
        (["--", "--server"], "--server"),
    ],
)
def test_arguments_of_pytest_are_passed_on(checkout, arguments, passed_on):
    with open(checkout / "scripts/lib/environment.sh", "a") as library:
        library.write('prepare() { :; }\nexec_python() { echo "$*"; }\n')
    result = run(checkout / "scripts/test", *arguments)
    assert (result.returncode, result.stdout) == (0, f"-m pytest {passed_on}\n")


def test_the_help_of_the_bench_has_every_flag():
    own = run(ROOT / "scripts/bench", "--help").stdout
    command = run(sys.executable, "-m", "kael", "bench", "--help", env=environment()).stdout
    assert set(re.findall(r"^ +(--\w+)", own, re.MULTILINE)) == set(
        re.findall(r"^ +(--\w+)", command, re.MULTILINE)
    )


def test_missing_packages_are_named_on_one_line(checkout):
    result = shell(checkout, "missing_packages no-such-tool bash another; missing_packages bash")
    assert result.stdout == "no-such-tool another\n\n"


def test_a_header_is_not_missing_because_the_compiler_is(checkout, tmp_path):
    script = "includes stdio.h && echo there; includes no/such.h || echo absent"
    result = shell(checkout, script, env={**ENVIRONMENT, "CXX": "no-such-compiler"})
    assert result.stdout == "there\nabsent\n"


def test_a_failing_search_for_packages_ends_the_script(checkout):
    result = shell(checkout, "missing_packages() { return 3; }\nneed_packages bash\necho went on")
    assert (result.returncode, result.stdout) == (3, "")


def test_the_first_start_is_announced_once_and_before_it_begins(checkout, tmp_path_factory):
    tools = tmp_path_factory.mktemp("tools")
    for name, body in {
        "id": "echo 0",
        "apt-get": f"case $1 in install) cp $0 {tools}/no-such-tool ;; esac",
    }.items():
        (tools / name).write_text(f"#!/bin/sh\n{body}\n")
        (tools / name).chmod(0o755)
    settings = {**ENVIRONMENT, "PATH": f"{tools}:{os.environ['PATH']}", "KAEL_NO_INSTALL": ""}
    result = shell(
        checkout, "need_packages no-such-tool\nsay_it_takes_minutes\nneed_packages bash", env=settings
    )
    assert result.returncode == 0, result.stderr
    assert result.stderr.splitlines() == [
        "Installing and building what is missing: this takes minutes, the first time only",
        "Updating the list of system packages",
        "Installing system packages: no-such-tool",
    ]


def test_half_an_environment_is_made_again(checkout):
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / ".venv/bin/python").symlink_to(sys.executable)  # and no pip, as after an early Ctrl-C
    (checkout / "server/requirements.txt").write_text("")
    stubs = 'step() { say "$2"; mkdir -p "$root/.venv/bin"; ln -sf "$(command -v python3)" "$venv_python"; }'
    made = shell(checkout, f"{stubs}\nneed_python serve; need_python serve")
    assert made.returncode == 0, made.stderr
    assert made.stderr.splitlines()[1:] == [
        "Creating the Python environment .venv",
        "Installing Python packages from server/requirements.txt",
    ]


def test_an_environment_is_not_whole_while_packages_are_installed(checkout):
    (checkout / ".venv/bin").mkdir(parents=True)
    (checkout / ".venv/bin/python").symlink_to(sys.executable)
    (checkout / ".venv/installed-serve.txt").write_text("what was pinned before\n")
    (checkout / "server/requirements.txt").write_text("")
    ended = shell(checkout, "step() { exit 9; }\nhas_python || exit 8\nneed_python serve")
    assert ended.returncode == 9
    assert shell(checkout, "has_python").returncode == 1


def test_a_check_that_is_killed_leaves_the_environment(checkout):
    python = checkout / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text("#!/bin/sh\nkill -KILL $$\n")
    python.chmod(0o755)
    (checkout / ".venv/installed-serve.txt").write_text("")
    result = shell(checkout, "step() { say making; }\nneed_python serve")
    assert result.returncode == 1
    assert "ended by a signal" in result.stderr
    assert "making" not in result.stderr
    assert python.exists()


SIGNALS = [signal.SIGINT, signal.SIGTERM]


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_not_lost_behind_a_program_that_ends_by_itself(checkout, number):
    # As Ctrl-C does: the signal goes to the script and to what it waits for.
    command = f"sh -c 'trap : INT TERM; kill -{int(number)} 0'\necho went on"
    result = shell(checkout, command, start_new_session=True)
    assert (result.returncode, result.stdout, result.stderr) == (128 + number, "", "")
    result = shell(checkout, f"interrupted_status=0\n{command}", start_new_session=True)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_the_step_that_runs(checkout, number):
    for name in ("started", "never"):
        os.mkfifo(checkout / name)
    # exec: dash forgets signals that come in the moment in which it starts a program.
    command = (
        f"step demo 'Making it' sh -c 'echo >{checkout}/started; exec cat {checkout}/never'; echo went on"
    )
    with subprocess.Popen(
        ["bash", "-c", f". {checkout}/scripts/lib/environment.sh\n{command}"],
        env=ENVIRONMENT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            (checkout / "started").read_text()
            process.send_signal(number)
            assert process.communicate(timeout=SECONDS) == ("", "Making it\n")
            assert process.returncode == 128 + number
        finally:
            process.kill()
    with pytest.raises(OSError, match="No such device"):  # nobody reads it any more
        os.open(checkout / "never", os.O_WRONLY | os.O_NONBLOCK)


@pytest.mark.skipif(
    run("env", "--block-signal=INT", "true").returncode != 0, reason="this system's env cannot block signals"
)
@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_before_the_server_can_handle_it_ends_it(checkout, number):
    python = checkout / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.write_text(f'#!/bin/sh\nkill -{int(number)} $$\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    result = shell(checkout, "exec_program server --port nonsense")
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


@contextlib.contextmanager
def long_step(checkout, line):
    """What a step that printed a line says of how far it is, without a terminal."""
    os.mkfifo(checkout / "go-on")
    command = f"progress_seconds=1; step demo 'Making it' sh -c 'echo {line}; cat {checkout}/go-on'"
    with subprocess.Popen(
        ["bash", "-c", f". {checkout}/scripts/lib/environment.sh\n{command}"],
        env=ENVIRONMENT,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr.readline() == "Making it\n"
        yield process.stderr.readline()
        (checkout / "go-on").write_text("")
        assert process.wait(SECONDS) == 0


def test_without_a_terminal_a_long_step_says_now_and_then_how_far_it_is(checkout):
    with long_step(checkout, "half") as said:
        assert re.fullmatch(r"  \d+ s  half\n", said)


def test_a_long_line_keeps_its_beginning_and_its_end(checkout):
    with long_step(checkout, "[23/130] Building " + "x" * 100 + "/base/error.cpp.o") as said:
        assert re.fullmatch(r"  \d+ s  \[23/130\] Building .*/base/error\.cpp\.o\n", said)
        assert len(said) < 80


def test_without_a_terminal_a_step_is_one_line(checkout):
    result = shell(checkout, "step demo 'Making it' echo half; cat build/log/demo.txt", cwd=checkout)
    assert (result.stderr, result.stdout) == ("Making it\n", "half\n")


def test_a_terminal_shows_how_far_a_step_is(checkout):
    os.mkfifo(checkout / "go-on")
    library = checkout / "scripts/lib/environment.sh"
    controller, terminal = pty.openpty()
    with subprocess.Popen(
        [
            "bash",
            "-c",
            f". {library}\nstep demo 'Making it' sh -c 'echo half; cat {checkout}/go-on'\nsay done",
        ],
        env=ENVIRONMENT,
        stderr=terminal,
        stdin=subprocess.DEVNULL,
    ) as process:
        os.close(terminal)
        try:
            shown = read_terminal(controller, r" \d+ s  half")
            assert shown.startswith("Making it\r\n")
            (checkout / "go-on").write_text("")
            # The line of the progress is wiped before the next step's begins.
            assert re.search(r"\r\x1b\[Kdone\r\n", read_terminal(controller, "done"))
            assert process.wait(SECONDS) == 0
        finally:
            process.kill()
            os.close(controller)


def read_terminal(controller, pattern):
    """What comes out of the terminal until it matches."""
    deadline = time.monotonic() + SECONDS
    shown = ""
    while not re.search(pattern, shown):
        readable, _, _ = select.select([controller], [], [], max(0, deadline - time.monotonic()))
        assert readable, shown
        shown += os.read(controller, 4096).decode()
    return shown


@pytest.mark.skipif(shutil.which("shellcheck") is None, reason="shellcheck is not installed")
def test_shellcheck_has_nothing_to_say():
    result = run("shellcheck", "-x", *SCRIPTS, ROOT / ".ci/run", cwd=ROOT)
    assert (result.returncode, result.stdout) == (0, "")
