"""Finds the library and the shared data, and keeps the process-wide settings of one test from the next."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import hypothesis
import numpy as np
import pytest

# No deadline and no complaint of slowness: the machine may be busy. No database: a run leaves nothing behind.
# The same examples every time, so that a change is judged by what it changed;
# KAEL_RANDOM_TESTS=1 draws others.
hypothesis.settings.register_profile(
    "kael",
    deadline=None,
    database=None,
    max_examples=60,
    derandomize=not os.environ.get("KAEL_RANDOM_TESTS"),
    suppress_health_check=[hypothesis.HealthCheck.too_slow],
)
hypothesis.settings.load_profile("kael")

# Whoever starts the tests in the background may have SIGINT ignored, which every process that a test starts
# would inherit, and no shell can undo.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

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


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory) -> Path:
    """The folder of a small model over bytes, with seeded random weights, and its tokenizer."""
    folder = tmp_path_factory.mktemp("checkpoint")
    write_checkpoint(folder)
    return folder


def write_checkpoint(folder: Path) -> None:
    """Two layers, two heads, width 32, 64 positions, a vocabulary of the 256 bytes and <|endoftext|>."""
    config = {
        "model_type": "gpt2",
        "n_layer": 2,
        "n_head": 2,
        "n_embd": 32,
        "n_positions": 64,
        "vocab_size": 257,
    }
    (folder / "config.json").write_text(json.dumps(config))
    kael.save_safetensors(folder / "model.safetensors", _random_weights(), {"format": "pt"})
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    alphabet = {byte: chr(byte) for byte in printable} | {byte: chr(256 + n) for n, byte in enumerate(others)}
    vocabulary = {alphabet[byte]: byte for byte in range(256)} | {"<|endoftext|>": 256}
    (folder / "vocab.json").write_text(json.dumps(vocabulary))
    (folder / "merges.txt").write_text("#version: 0.2\n")


def _random_weights() -> dict[str, np.ndarray]:
    random = np.random.default_rng(0)
    shapes = {"wte.weight": (257, 32), "wpe.weight": (64, 32), "ln_f.weight": (32,), "ln_f.bias": (32,)}
    for layer in range(2):
        name = f"h.{layer}"
        shapes |= {f"{name}.{norm}.{kind}": (32,) for norm in ("ln_1", "ln_2") for kind in ("weight", "bias")}
        for linear, inputs, outputs in (
            ("attn.c_attn", 32, 96),
            ("attn.c_proj", 32, 32),
            ("mlp.c_fc", 32, 128),
            ("mlp.c_proj", 128, 32),
        ):
            shapes |= {f"{name}.{linear}.weight": (inputs, outputs), f"{name}.{linear}.bias": (outputs,)}
    return {name: random.normal(0, 0.3, shape).astype(np.float32) for name, shape in shapes.items()}
