"""The examples of docs/examples run, and do what they say."""

from __future__ import annotations

import os
import runpy
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

ROOT = Path(__file__).resolve().parents[2]
MNIST_SCRIPT = ROOT / "docs" / "examples" / "mnist.py"
MNIST = ROOT.parent / "shared" / "data" / "mnist"
FASHION_MNIST = Path("/usr/share/datasets/fashion-mnist")


def write_digits(folder, count):
    """Images of ten shapes that a network can tell apart, as IDX files."""
    random = np.random.default_rng(1)
    labels = random.integers(0, 10, count).astype(np.uint8)
    shapes = random.integers(0, 2, (10, 6, 6)) * 200
    images = (shapes[labels] + random.integers(0, 50, (count, 6, 6))).astype(np.uint8)
    (folder / "images").write_bytes(struct.pack(">4B3I", 0, 0, 8, 3, count, 6, 6) + images.tobytes())
    (folder / "labels").write_bytes(struct.pack(">4BI", 0, 0, 8, 1, count) + labels.tobytes())
    return folder / "images", folder / "labels"


def run(*arguments):
    return subprocess.run(
        [sys.executable, MNIST_SCRIPT, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": str(ROOT / "py")},
    )


def test_the_mnist_example_learns_and_says_so(tmp_path):
    done = run(*write_digits(tmp_path, 1000), "--epochs", 3)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines] == ["epoch 1", "epoch 2", "epoch 3"]
    assert "100.0% of the test images right" in lines[-1]


def test_the_mnist_example_names_what_is_wrong(tmp_path):
    images, labels = write_digits(tmp_path, 10)
    done = run(images, tmp_path / "none")
    assert (done.returncode, done.stderr) == (1, f"there is no file {tmp_path / 'none'}\n")
    done = run(labels, labels)
    assert done.returncode == 1
    assert "expected 0x00000803, an IDX file of images" in done.stderr


def train_on_test_images(folder, *options):
    example = runpy.run_path(str(MNIST_SCRIPT))
    files = [str(folder / f"t10k-{kind}-ubyte.gz") for kind in ("images-idx3", "labels-idx1")]
    return example["main"]([*files, *options])


@pytest.mark.skipif(not MNIST.is_dir(), reason=f"MNIST is not there ({MNIST})")
def test_the_mnist_example_reads_digits(capsys):
    assert train_on_test_images(MNIST) >= 0.94
    assert capsys.readouterr().out.count("epoch") == 10


@pytest.mark.skipif(
    not FASHION_MNIST.is_dir(),
    reason=f"Debian's package dataset-fashion-mnist is not there ({FASHION_MNIST})",
)
def test_the_mnist_example_tells_clothes_apart():
    assert train_on_test_images(FASHION_MNIST, "--epochs", "4") >= 0.8
