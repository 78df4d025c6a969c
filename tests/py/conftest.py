"""Finds the library and the shared data, and keeps the process-wide settings of one test from the next."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import hypothesis
import pytest

# No deadline: the machine may be busy. No database: a run leaves nothing behind.
hypothesis.settings.register_profile("kael", deadline=None, database=None, max_examples=60)
hypothesis.settings.load_profile("kael")

ROOT = Path(__file__).resolve().parents[2]
SHARED = ROOT.parent / "shared"

_suffix = {"win32": "kael.dll", "darwin": "libkael.dylib"}.get(sys.platform, "libkael.so")
os.environ.setdefault("KAEL_LIBRARY", str(ROOT / "build" / "cpu" / _suffix))

import kael  # noqa: E402  (after the library is chosen)


@pytest.fixture(scope="session")
def root() -> Path:
    """The root of the checkout."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of test data beside the checkout; tests that need it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip(f"the shared test data is not here: {SHARED} is absent")
    return SHARED


@pytest.fixture(scope="session")
def checkpoints(shared: Path) -> Path:
    """Folders of GPT-2 checkpoints with random weights and float64 reference results."""
    return shared / "data" / "checkpoints"


@pytest.fixture
def tiny() -> kael.GPT:
    """A model of one layer over bytes, with seeded random weights."""
    kael.manual_seed(0)
    return kael.GPT(vocab_size=256, max_positions=64, layers=1, heads=2, dimension=16)


@pytest.fixture
def threads_restored():
    """For tests that change the number of threads."""
    before = kael.get_num_threads()
    yield
    kael.set_num_threads(before)
