"""The scripts: what they say, when they say it, and what they leave alone."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time

import pytest
from server_live import SECONDS
from server_process import ROOT, environment

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
        ("test", "--server"),
        ("verify", "tsan"),
    ):
        result = run(checkout / "scripts" / script, "--help", cwd="/")
        assert (result.returncode, result.stderr) == (0, ""), script
        assert flag in result.stdout, script
    assert not (checkout / ".venv").exists()
    assert os.listdir(checkout / "build") == ["log"]


def test_a_wrong_argument_is_refused_before_anything_is_installed_or_built(checkout):
    for script, argument in (("serve", "--prot"), ("format", "--chekc"), ("verify", "asna")):
        result = run(checkout / "scripts" / script, argument, cwd="/")
        assert (result.returncode, result.stdout) == (2, ""), script
        assert argument in result.stderr
        assert result.stderr.count("\n") == 1
    assert not (checkout / ".venv").exists()
    assert os.listdir(checkout / "build") == ["log"]


def test_the_help_of_the_bench_has_every_flag():
    own = run(ROOT / "scripts/bench", "--help").stdout
    command = run(sys.executable, "-m", "kael", "bench", "--help", env=environment()).stdout
    assert set(re.findall(r"^ +(--\w+)", own, re.MULTILINE)) == set(
        re.findall(r"^ +(--\w+)", command, re.MULTILINE)
    )


def test_missing_packages_are_named_on_one_line(checkout):
    result = shell(checkout, "missing_packages no-such-tool bash another; missing_packages bash")
    assert result.stdout == "no-such-tool another\n\n"


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
