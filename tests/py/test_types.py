"""What type checkers and editors know of kael and of its server."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
WITH_KAEL = {**os.environ, "PYTHONPATH": str(ROOT / "py")}

USER = """
import kael

x: kael.Tensor = kael.zeros(2, 3).reshape(3, 2) + 1.0
x[0] = 5
values, indices = kael.sort(x.max(0).values)
number: float = float(x.sum(dim=1, keepdim=True).max().item())
model = kael.GPT.from_pretrained(kael.default_model_path())
ids: list[int] = model.generate([1, 2], 5, seed=1)
"""


def mypy(*arguments):
    pytest.importorskip("mypy", reason="the package mypy, which checks types, is not installed")
    return subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", ROOT / "build" / "mypy", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=500,
        env=WITH_KAEL,
    )


def test_the_declared_operators_are_those_that_are_made():
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / "make-type-stubs", "--check"],
        capture_output=True,
        text=True,
        timeout=60,
        env=WITH_KAEL,
    )
    assert done.returncode == 0, done.stderr


def test_the_types_of_kael_and_the_server_agree():
    done = mypy()
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_program_that_uses_kael_is_checked(tmp_path):
    (tmp_path / "user.py").write_text(USER)
    done = mypy("--strict", tmp_path / "user.py")
    assert done.returncode == 0, done.stdout + done.stderr
    (tmp_path / "user.py").write_text(USER + 'y: int = x.exp()\nx.reshap(2)\nkael.zeros(2, dtyp="int64")\n')
    found = mypy("--strict", tmp_path / "user.py").stdout
    assert "Incompatible types in assignment" in found
    assert '"Tensor" has no attribute "reshap"' in found
    assert 'Unexpected keyword argument "dtyp"' in found
