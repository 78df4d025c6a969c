"""Breaks kael on purpose, one committed patch at a time, and looks whether the tests notice.

    scripts/verify mutations        # of a tree that is whole

Each NN-name.patch begins with three lines: the fault in words; the preset whose build shows it (cpu, asan,
tsan), or python for the tests in Python on the cpu build; and what to run, a regular expression of ctest's
names or files of pytest. All happens in a copy of the tree, build/mutations. Ends with 1 when a patch does
not apply or build, when its tests fail without it, or when they pass with it.
"""

from __future__ import annotations

import os
import pathlib
import re
import shutil
import subprocess
import sys
from typing import NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COPY = ROOT / "build" / "mutations"


class Mutation(NamedTuple):
    patch: pathlib.Path
    fault: str
    preset: str
    tests: str


class Surprise(Exception):
    """What should not have happened to a mutation, in a line."""


def read(patch: pathlib.Path) -> Mutation:
    lines = patch.read_text("utf-8").splitlines()
    fields = dict(line.split(": ", 1) for line in lines[:3])
    return Mutation(patch, fields["Fault"], fields["Preset"], fields["Tests"])


def run(*command: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*map(str, command)],
        cwd=COPY,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
    )


def apply(mutation: Mutation, *options: str) -> None:
    done = run(
        "patch", "-p1", "--batch", "--fuzz=0", "--no-backup-if-mismatch", *options, "-i", mutation.patch
    )
    if done.returncode != 0:
        raise Surprise(f"does not apply: {done.stdout}")


def build(preset: str, python: str) -> None:
    if not (COPY / "build" / preset / "build.ninja").exists():
        configured = run("cmake", "--preset", preset, f"-DPython_EXECUTABLE={python}")
        if configured.returncode != 0:
            raise Surprise(configured.stdout)
    built = run("cmake", "--build", "--preset", preset)
    if built.returncode != 0:
        raise Surprise(f"does not build: {built.stdout[-3000:]}")


def failure(mutation: Mutation, python: str) -> str | None:
    """The first test that fails; None when all pass."""
    if mutation.preset == "python":
        done = run(
            python, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *mutation.tests.split(),
            PYTHONPATH="py", KAEL_LIBRARY=str(COPY / "build" / "cpu" / "libkael.so"),
        )  # fmt: skip
        found = re.search(r"^FAILED (.*?)(?: - |$)", done.stdout, re.MULTILINE)
    else:
        done = run(
            "ctest",
            "--preset",
            mutation.preset,
            "--stop-on-failure",
            "--no-tests=error",
            "-R",
            mutation.tests,
        )
        found = re.search(r"^\s+\d+ - (\S+)", done.stdout, re.MULTILINE)
        report = re.search(r"(?:WARNING|ERROR): \w+Sanitizer: [\w -]+", done.stdout)
        if found and report:
            return f"{found[1]}: {report[0]}"
    if done.returncode == 0:
        return None
    if found is None:
        raise Surprise(done.stdout[-3000:])
    return found[1]


def try_out(mutation: Mutation, python: str) -> str:
    """The test that notices the fault."""
    preset = "cpu" if mutation.preset == "python" else mutation.preset
    build(preset, python)
    if (wrong := failure(mutation, python)) is not None:
        raise Surprise(f"{wrong} fails without the fault")
    apply(mutation)
    try:
        build(preset, python)
        found = failure(mutation, python)
    finally:
        apply(mutation, "--reverse")
    if found is None:
        raise Surprise("all tests pass with the fault")
    return found


def main() -> int:
    python = sys.executable
    COPY.mkdir(parents=True, exist_ok=True)
    for old in COPY.iterdir():  # a test that is gone notices nothing
        if old.name != "build":
            shutil.rmtree(old) if old.is_dir() else old.unlink()
    shutil.copytree(
        ROOT, COPY, dirs_exist_ok=True, ignore=shutil.ignore_patterns("build", ".venv", ".git", "__pycache__")
    )
    mutations = [read(patch) for patch in sorted(HERE.glob("*.patch"))]
    missed = 0
    for mutation in mutations:
        try:
            seen = f"caught on {mutation.preset} by {try_out(mutation, python)}"
        except Surprise as surprise:
            missed += 1
            seen = f"NOT CAUGHT: {surprise}"
        print(f"{mutation.patch.stem}: {mutation.fault}: {seen}", flush=True)
    print(f"{len(mutations) - missed} of {len(mutations)} caught")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
