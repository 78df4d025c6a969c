"""The faults of tests/mutations, which scripts/verify puts in, fit the source as it is."""

from __future__ import annotations

import pathlib
import shutil
import subprocess

import pytest
import sanitizer

ROOT = pathlib.Path(__file__).resolve().parents[2]
PATCHES = sorted((ROOT / "tests" / "mutations").glob("*.patch"))


@pytest.mark.skipif(shutil.which("patch") is None, reason="the program patch is not installed")
@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.stem)
def test_a_fault_can_still_be_put_in(path):
    command = ["patch", "-p1", "--batch", "--forward", "--fuzz=0", "--dry-run", "-i", str(path)]
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, timeout=60, env=sanitizer.environment_of_others()
    )
    assert done.returncode == 0, done.stdout + done.stderr
    fields = [line.partition(": ")[0] for line in path.read_text("utf-8").splitlines()[:3]]
    assert fields == ["Fault", "Preset", "Tests"]


def test_there_are_ten_faults():
    assert len(PATCHES) == 10
