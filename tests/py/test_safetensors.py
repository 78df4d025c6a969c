"""kael.load_safetensors and kael.save_safetensors, against the format's own library where it is installed."""

from __future__ import annotations

import gc
import json
import os
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

import kael

DTYPES = ["float32", "float64", "float16", "int64", "int32", "int8", "uint8", "bool"]
arrays = st.sampled_from(DTYPES).flatmap(
    lambda dtype: st_numpy.arrays(
        dtype, st_numpy.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
    )
)
# Any name but the one that the format keeps for itself.
names = st.text(st.characters(codec="utf-8"), max_size=12).filter(lambda name: name != "__metadata__")


@given(
    st.dictionaries(names, arrays, max_size=4), st.dictionaries(names, st.text(st.characters(codec="utf-8")))
)
def test_what_was_saved_is_loaded(tmp_path_factory, tensors, metadata):
    path = tmp_path_factory.mktemp("saved") / "x.safetensors"
    kael.save_safetensors(path, tensors, metadata)
    for mode in ("copy", "mapped"):
        loaded = kael.load_safetensors(path, mode=mode)
        assert loaded.keys() == tensors.keys()
        assert loaded.metadata == metadata
        for name, array in tensors.items():
            assert loaded[name].dtype == array.dtype.name
            np.testing.assert_array_equal(loaded[name].numpy(), array)


def test_the_format_library_reads_what_was_written_and_the_other_way(tmp_path):
    reference = pytest.importorskip("safetensors.numpy", reason="the safetensors package is not installed")
    tensors = {
        "b": np.arange(6, dtype=np.float32).reshape(2, 3),
        "a": np.array(3, np.int64),
        "e": np.zeros((0, 2)),
    }
    kael.save_safetensors(tmp_path / "ours", tensors, {"by": "kael"})
    loaded = reference.load_file(tmp_path / "ours")
    assert loaded.keys() == tensors.keys()
    for name, array in tensors.items():
        np.testing.assert_array_equal(loaded[name], array)
    reference.save_file(tensors, tmp_path / "theirs", metadata={"by": "them"})
    back = kael.load_safetensors(tmp_path / "theirs")
    assert back.metadata == {"by": "them"}
    for name, array in tensors.items():
        np.testing.assert_array_equal(back[name].numpy(), array)


def test_copied_tensors_can_be_written_mapped_ones_cannot(tmp_path):
    path = tmp_path / "x.safetensors"
    kael.save_safetensors(path, {"x": np.zeros(3, np.float32)})
    copied = kael.load_safetensors(path)["x"]
    assert not copied.is_read_only
    copied.numpy()[0] = 1.0
    mapped = kael.load_safetensors(path, mode="mapped")["x"]
    assert mapped.is_read_only
    array = mapped.numpy()
    assert not array.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1.0
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        array.flags.writeable = True
    assert mapped.tolist() == [0.0, 0.0, 0.0]


def test_an_array_keeps_its_mapped_file_alive_and_survives_a_save_over_it(tmp_path):
    path = tmp_path / "x.safetensors"
    kael.save_safetensors(path, {"x": np.arange(50_000, dtype=np.float32)})
    array = kael.load_safetensors(path, mode="mapped")["x"].numpy()
    gc.collect()
    kael.save_safetensors(path, {"x": np.zeros(1, np.float32)})
    assert array[-1] == 49_999


def test_values_may_be_tensors_arrays_or_lists(tmp_path):
    path = tmp_path / "x.safetensors"
    values = {"t": kael.tensor([1.5], dtype="bfloat16"), "n": np.ones((2, 2)).T, "l": [[1, 2], [3, 4]]}
    kael.save_safetensors(path, values)
    loaded = kael.load_safetensors(path)
    assert {name: tensor.dtype for name, tensor in loaded.items()} == {
        "t": "bfloat16",
        "n": "float64",
        "l": "int64",
    }
    assert loaded["t"].tolist() == [1.5]
    assert loaded["l"].tolist() == [[1, 2], [3, 4]]


def damaged(shape, offsets, data=b"\0\0\0\0", dtype="F32"):
    header = json.dumps({"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}).encode()
    return struct.pack("<Q", len(header)) + header + data


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\0" * 7,
        struct.pack("<Q", 0),
        struct.pack("<Q", 2**63),
        damaged([4294967296, 4294967296], [0, 0]),
        damaged([-1], [0, 4]),
        damaged([2], [0, 4]),
        damaged([1], [0, 8]),
        damaged([1], [0, 4], data=b"\0" * 5),
        damaged([1], [0, 4], dtype="F99"),
    ],
)
@pytest.mark.parametrize("mode", ["copy", "mapped"])
def test_a_damaged_file_is_refused_by_name(tmp_path, content, mode):
    path = tmp_path / "bad.safetensors"
    path.write_bytes(content)
    with pytest.raises(kael.Error, match=r"bad\.safetensors") as caught:
        kael.load_safetensors(path, mode=mode)
    assert caught.value.code in (kael.ErrorCode.INVALID_FILE, kael.ErrorCode.UNSUPPORTED)
    assert "\n" not in caught.value.message


def test_wrong_arguments(tmp_path):
    with pytest.raises(kael.Error, match="mode is 'lazy', expected 'copy' or 'mapped'"):
        kael.load_safetensors("x", mode="lazy")
    with pytest.raises(TypeError, match="mode must be a str"):
        kael.load_safetensors("x", mode=1)
    with pytest.raises(TypeError, match="path must be a path"):
        kael.load_safetensors(3)
    with pytest.raises(kael.Error, match="path cannot be a path"):
        kael.load_safetensors("a\ud800")
    with pytest.raises(kael.Error, match="absent") as caught:
        kael.load_safetensors(tmp_path / "absent")
    assert caught.value.code is kael.ErrorCode.NOT_FOUND
    with pytest.raises(TypeError, match="name of a tensor must be str"):
        kael.save_safetensors(tmp_path / "x", {3: [1]})
    with pytest.raises(TypeError, match="metadata"):
        kael.save_safetensors(tmp_path / "x", {}, {"a": 1})
    with pytest.raises(kael.Error, match="surrogate"):
        kael.save_safetensors(tmp_path / "x", {"\ud800": [1]})
    with pytest.raises(kael.Error, match=r"no[t ].*exist|No such"):
        kael.save_safetensors(tmp_path / "no" / "x", {})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("path", ["a\nb", "a\rb", "a\x1b[31mb"])
def test_a_path_with_control_characters_is_escaped_in_the_message(tmp_path, path):
    with pytest.raises(kael.Error) as caught:
        kael.load_safetensors(tmp_path / path)
    shown = path.encode("unicode_escape").decode()
    for text in (caught.value.message, str(caught.value)):
        assert shown in text
        assert text.isprintable()


def test_an_empty_path_is_named_by_its_argument():
    with pytest.raises(kael.Error, match=r"^kael error at .*: the argument path is empty, expected a path$"):
        kael.load_safetensors("")


@pytest.mark.parametrize("metadata", ["x", 0, ["a"], [("a", "b")]])
def test_metadata_that_is_no_mapping_is_a_type_error(tmp_path, metadata):
    with pytest.raises(TypeError, match="metadata must be a mapping, not "):
        kael.save_safetensors(tmp_path / "x", {}, metadata)
    with pytest.raises(TypeError, match="tensors must be a mapping, not "):
        kael.save_safetensors(tmp_path / "x", metadata)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")
def test_a_replaced_file_keeps_its_permissions_and_a_link_is_itself_replaced(tmp_path):
    old, link = tmp_path / "old", tmp_path / "link"
    kael.save_safetensors(old, {"a": [1]})
    old.chmod(0o604)
    kael.save_safetensors(old, {"a": [2]})
    assert old.stat().st_mode & 0o7777 == 0o604
    link.symlink_to("old")
    kael.save_safetensors(link, {"a": [3]})
    assert not link.is_symlink()
    assert [kael.load_safetensors(path)["a"].tolist() for path in (old, link)] == [[2], [3]]


def test_a_copied_file_may_be_cut_short_afterwards(tmp_path):  # KB011
    path = tmp_path / "x.safetensors"
    kael.save_safetensors(path, {"x": np.arange(5000, dtype=np.int64)})
    x = kael.load_safetensors(path, mode="copy")["x"]
    os.truncate(path, 0)
    assert x.sum().item() == 4999 * 2500
