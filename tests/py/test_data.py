"""MNIST's IDX files from Python."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest

import kael

MNIST = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "mnist"


def images_file(array):
    return struct.pack(">4B3I", 0, 0, 8, 3, *array.shape) + array.tobytes()


@pytest.fixture
def array():
    return np.arange(24, dtype=np.uint8).reshape(2, 3, 4)


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_images_come_from_plain_and_packed_files(tmp_path, array, pack):
    path = tmp_path / "images"
    path.write_bytes(pack(images_file(array)))
    images = kael.data.read_idx_images(path)
    assert images.dtype == "uint8"
    np.testing.assert_array_equal(images.numpy(), array)


def test_labels_come_from_files(tmp_path):
    path = tmp_path / "labels"
    path.write_bytes(struct.pack(">4BI", 0, 0, 8, 1, 3) + bytes([5, 0, 9]))
    assert kael.data.read_idx_labels(str(path)).tolist() == [5, 0, 9]


def test_what_is_no_such_file_is_named(tmp_path, array):
    path = tmp_path / "images"
    with pytest.raises(kael.Error, match=f"there is no file {path}") as caught:
        kael.data.read_idx_images(path)
    assert caught.value.code is kael.ErrorCode.NOT_FOUND
    path.write_bytes(images_file(array)[:-1])
    with pytest.raises(
        kael.Error, match=rf"{path} has 39 bytes, expected 40 for images of shape \[2, 3, 4\]"
    ):
        kael.data.read_idx_images(path)
    with pytest.raises(
        kael.Error, match="begins with 0x00000803, expected 0x00000801, an IDX file of labels"
    ):
        kael.data.read_idx_labels(path)
    path.write_bytes(gzip.compress(images_file(array))[:-9])
    with pytest.raises(kael.Error, match=f"{path} is a damaged gzip file"):
        kael.data.read_idx_images(path)
    with pytest.raises(kael.Error, match=f"cannot read {tmp_path}: Is a directory"):
        kael.data.read_idx_images(tmp_path)
    with pytest.raises(TypeError, match="path"):
        kael.data.read_idx_images(3)


def test_a_packed_file_with_a_wrong_byte_anywhere_is_an_error_or_the_same_images(tmp_path):
    array = np.arange(3 * 40 * 50, dtype=np.uint32).astype(np.uint8).reshape(3, 40, 50)
    path = tmp_path / "images"
    packed = gzip.compress(images_file(array))
    refusals = set()
    for place in range(len(packed)):
        for wrong in (0x01, 0xFF):
            path.write_bytes(packed[:place] + bytes([packed[place] ^ wrong]) + packed[place + 1 :])
            try:
                np.testing.assert_array_equal(kael.data.read_idx_images(path).numpy(), array)
            except kael.Error as error:
                refusals.add((error.code, str(path) in error.message))
    assert refusals == {(kael.ErrorCode.INVALID_FILE, True)}


@pytest.mark.parametrize(("pack", "does"), [(bytes, "has"), (gzip.compress, "unpacks to")])
def test_a_file_that_is_too_much_is_refused(tmp_path, monkeypatch, pack, does):
    path = tmp_path / "images"
    content = images_file(np.zeros((1, 1, 1000), np.uint8))
    path.write_bytes(pack(content))
    monkeypatch.setattr("kael.data._idx._MOST_BYTES", len(content))
    assert kael.data.read_idx_images(path).shape == (1, 1, 1000)
    monkeypatch.setattr("kael.data._idx._MOST_BYTES", len(content) - 1)
    with pytest.raises(kael.Error, match=f"{path} {does} more than 1015 bytes") as refused:
        kael.data.read_idx_images(path)
    assert refused.value.code == kael.ErrorCode.INVALID_FILE


@pytest.mark.skipif(not MNIST.is_dir(), reason=f"MNIST is not there ({MNIST})")
def test_mnist_is_read():
    images = kael.data.read_idx_images(MNIST / "t10k-images-idx3-ubyte.gz")
    labels = kael.data.read_idx_labels(MNIST / "t10k-labels-idx1-ubyte.gz")
    assert images.shape == (10_000, 28, 28)
    assert labels[:5].tolist() == [7, 2, 1, 0, 4]
    assert 33.7 < images.float().mean().item() < 33.9
