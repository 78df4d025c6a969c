"""The programs that measure a server run, in small."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys

import pytest
import server_checkpoint
import server_process

SCHEMATHESIS = shutil.which(
    "schemathesis",
    path=os.pathsep.join([str(server_process.ROOT / "build/fuzz-server/bin"), os.environ["PATH"]]),
)


def run(module, *arguments):
    result = subprocess.run(
        [sys.executable, "-m", f"measurements.{module}", *map(str, arguments)],
        env=server_process.environment(),
        cwd=server_process.ROOT,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert "Traceback" not in result.stderr, result.stderr
    return result


@pytest.mark.parametrize("queue", [0, 5])
def test_a_small_stress_adds_up(tmp_path, queue):
    folder = server_checkpoint.write(tmp_path)
    result = run("stress", "--requests", 150, "--connections", 8, "--queue", queue, "--data", folder)
    assert "NOT SO" not in result.stdout.replace("NOT SO: memory grew", ""), result.stdout
    assert re.search(r"^1[5-9]\d requests over ", result.stdout, re.MULTILINE)


def test_each_way_to_leave_is_measured(tmp_path):
    folder = server_checkpoint.write(tmp_path, layers=8, width=384)
    result = run("cancellation", "--rounds", 1, "--data", folder)
    assert (
        len(re.findall(r"^\| .*, (?:plain|stream) \|(?: \d+\.\d ms \|){4}$", result.stdout, re.MULTILINE))
        == 13
    )


@pytest.mark.skipif(SCHEMATHESIS is None, reason="needs schemathesis, which scripts/fuzz-server installs")
def test_requests_drawn_at_random_find_nothing(tmp_path):
    folder = server_checkpoint.write(tmp_path)
    result = run("fuzzing", "--minutes", 0, "--data", folder, "--schemathesis", SCHEMATHESIS)
    assert result.returncode == 0, result.stdout
    assert re.search(r"^Test cases:\n +\d+ generated, \d+ passed$", result.stdout, re.MULTILINE)


def test_the_costs_of_serving_are_measured(tmp_path):
    result = run("serving", "--rounds", 2, "--tokens", 4, "--data", server_checkpoint.write(tmp_path))
    assert len(re.findall(r"\(at most \d+%?\)$", result.stdout, re.MULTILINE)) == 3, result.stdout
