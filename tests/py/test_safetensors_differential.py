"""The safetensors reader and writer against the Python package ``safetensors``: the verdicts of the table
that the native tests use, random damage to valid files, and the bytes of written files.

kael is stricter on purpose in the cases of ``STRICTER`` (docs/formats/safetensors.md), never more lenient.
"""

from __future__ import annotations

import json
import os
import random
import re
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kael

reference = pytest.importorskip("safetensors", reason="the safetensors package is not installed")

DTYPES = {
    "F64": "float64",
    "F32": "float32",
    "F16": "float16",
    "BF16": "bfloat16",
    "I64": "int64",
    "I32": "int32",
    "I8": "int8",
    "U8": "uint8",
    "BOOL": "bool",
}
STRICTER = re.compile(
    "is given twice$"
    "|expected dtype to be a string, found an object$"
    "|expected an object, found an array$"
    "|expected 0 or 1 in a BOOL tensor$"
    "|, of which kael has no tensors$"
    "|dimensions, kael's tensors have at most 16$"
    "|, whose strides do not fit in 64 bits$"
)


def reference_load(content: bytes) -> dict[str, tuple[str, list[int], bytes]] | None:
    try:
        tensors = reference.deserialize(content)
    except reference.SafetensorError:
        return None
    return {name: (t["dtype"], t["shape"], bytes(t["data"])) for name, t in tensors}


def bits_of(tensor: kael.Tensor) -> bytes:
    if tensor.dtype == "bfloat16":  # NumPy has none, and widening appends two bytes of zero
        return (tensor.float().numpy().view(np.uint32) >> 16).astype(np.uint16).tobytes()
    return tensor.numpy().tobytes()


def kael_load(path, mode: str) -> tuple[dict[str, tuple[str, list[int], bytes]] | None, str]:
    try:
        loaded = kael.load_safetensors(path, mode=mode)
    except kael.Error as error:
        return None, error.message
    return {name: (t.dtype, list(t.shape), bits_of(t)) for name, t in loaded.items()}, ""


def compare(path, content: bytes) -> None:
    """Both refuse, both accept with the same tensors, or kael refuses for a reason of ``STRICTER``."""
    path.write_bytes(content)
    expected = reference_load(content)
    for mode in ("copy", "mapped"):
        ours, message = kael_load(path, mode)
        if expected is None:
            assert ours is None, f"{mode}: accepted what the reference refuses: {content!r}"
        elif ours is None:
            assert STRICTER.search(message), f"{mode}: refused what the reference accepts: {message}"
        else:
            assert ours == {name: (DTYPES[d], shape, data) for name, (d, shape, data) in expected.items()}


def file_of(header: bytes, data: bytes) -> bytes:
    return struct.pack("<Q", len(header)) + header + data


def test_the_table_of_verdicts_is_right_about_both(root, tmp_path):
    path = tmp_path / "case.safetensors"
    for row in json.loads((root / "tests/data/safetensors_verdicts.json").read_text()):
        if "file" in row:
            content = bytes.fromhex(row["file"])
        else:
            parts = [p if isinstance(p, str) else p["text"] * p["times"] for p in row["header"]]
            header = "".join(parts).encode("latin-1")
            length = row.get("length", len(header))
            content = struct.pack("<Q", length) + header + bytes.fromhex(row["data"])
        verdict = "reject" if reference_load(content) is None else "accept"
        assert verdict == row["reference"], row["case"]
        assert row["kael"] != "accept" or verdict == "accept", row["case"]
        compare(path, content)


# Valid files to damage: an ordinary one, one with everything that is legal and odd, one of each dtype.
SEEDS = [
    file_of(
        json.dumps(
            {
                "__metadata__": {"format": "pt"},
                "h.0.weight": {"dtype": "F32", "shape": [2, 1], "data_offsets": [0, 8]},
                "h.0.bias": {"dtype": "F32", "shape": [1], "data_offsets": [8, 12]},
            }
        ).encode(),
        bytes(12),
    ),
    file_of(
        b' \n{"b":{"dtype":"F32","shape":[],"data_offsets":[1,5],"x":[{"y":1e5}]},"__metadata__":null,'
        b'"\\u0000\xc3\xa9":{"shape":[0,7],"data_offsets":[1,1],"dtype":"BF16"},'
        b'"":{"data_offsets":[0,1],"dtype":"BOOL","shape":[1,1,1]}} \t',
        b"\x01\x00\x00\x80\x3f",
    ),
    file_of(
        b"{%s}"
        % b",".join(
            b'"t%d":{"dtype":"%s","shape":[%d],"data_offsets":[%d,%d]}'
            % (i, dtype.encode(), 8 // width, 8 * i, 8 * i + 8)
            for i, (dtype, width) in enumerate(zip(DTYPES, (8, 4, 2, 2, 8, 4, 1, 1, 1), strict=True))
        ),
        bytes(8 * len(DTYPES)),
    ),
]
PIECES = [
    *(b"%d" % n for n in (0, 1, 2, 4, 8, 16, 2**31, 2**32, 2**62, 2**63, 2**64 - 1, 2**64)),
    *(b'"%s"' % name.encode() for name in (*DTYPES, "F4", "F8_E4M3", "U64", "f32")),
    *(b'"dtype":', b'"shape":', b'"data_offsets":', b'"__metadata__":', b'"h.0.bias":', b'"":'),
    *(b"{", b"}", b"[", b"]", b",", b":", b"[]", b"{}", b"[[[[", b"null", b"true", b'"a"', b" ", b"\n"),
    *(b"-0", b"-1", b"1.0", b"1e0", b"01", b"1e400", b"NaN", b"\\u0061", b"\\ud800", b"\\", b'"'),
    *(b"\x00", b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"//", b"/**/"),
]


def damaged(rng: random.Random) -> bytes:
    """One of the seeds after a few random changes; mostly with a length that fits the header again."""
    content = rng.choice(SEEDS)
    length = struct.unpack("<Q", content[:8])[0]
    header, data = bytearray(content[8 : 8 + length]), bytearray(content[8 + length :])
    for _ in range(rng.randint(1, 3)):
        target = header if rng.random() < 0.85 else data
        start = rng.randint(0, len(target))
        end = min(len(target), start + rng.choice((0, 0, 1, 1, 2, 5, 20)))
        action = rng.randrange(5)
        if action == 0:
            target[start:end] = rng.choice(PIECES)
        elif action == 1:
            target[start:end] = b""
        elif action == 2:
            target[start:start] = target[start:end]
        elif action == 3 and end > start:
            target[start] = rng.randrange(256)
        else:
            numbers = list(re.finditer(rb"\d+", header))
            if numbers:  # the likeliest damage to be believed
                number = rng.choice(numbers)
                header[number.start() : number.end()] = rng.choice(PIECES)
    length = len(header) if rng.random() < 0.95 else rng.choice((0, 1, len(header) + 1, 2**63, 2**64 - 1))
    return struct.pack("<Q", length) + header + data


def test_inputs_of_the_fuzzer_are_judged_as_by_the_reference(root, tmp_path):
    """The seeds, and with ``KAEL_FUZZ_FOUND`` what ``scripts/verify fuzz`` has found in that folder."""
    folders = [root / "fuzz/corpus/fuzz_safetensors"]
    if found := os.environ.get("KAEL_FUZZ_FOUND"):
        folders.append(Path(found) / "fuzz_safetensors/corpus")
    for folder in folders:
        inputs = sorted(folder.iterdir())
        assert inputs, folder
        for file in inputs:
            compare(tmp_path / "input.safetensors", file.read_bytes())


@given(st.integers(0, 2**64 - 1))
def test_random_damage_is_judged_as_by_the_reference(tmp_path_factory, seed):
    path = tmp_path_factory.getbasetemp() / "damaged.safetensors"
    rng = random.Random(seed)
    for _ in range(25):
        compare(path, damaged(rng))


@pytest.mark.parametrize("seed", SEEDS, ids=["ordinary", "odd", "dtypes"])
def test_what_is_damaged_was_valid(tmp_path, seed):
    assert reference_load(seed) is not None
    (tmp_path / "seed").write_bytes(seed)
    assert kael_load(tmp_path / "seed", "mapped")[0] is not None


@settings(max_examples=40)
@given(
    st.dictionaries(
        st.text(st.characters(codec="utf-8"), max_size=8).filter(lambda name: name != "__metadata__"),
        st.tuples(
            st.sampled_from([d for d in DTYPES if d != "BF16"]), st.lists(st.integers(0, 3), max_size=3)
        ),
        max_size=6,
    ),
    st.dictionaries(st.text(st.characters(codec="utf-8"), max_size=8), st.text(max_size=3), max_size=1),
)
def test_written_files_are_those_of_the_reference_to_the_byte(tmp_path_factory, tensors, metadata):
    rng = np.random.default_rng(0)
    arrays = {
        name: rng.integers(0, 2, size=shape).astype(DTYPES[dtype]) for name, (dtype, shape) in tensors.items()
    }
    path = tmp_path_factory.getbasetemp() / "written.safetensors"
    kael.save_safetensors(path, arrays, metadata)
    expected = pytest.importorskip("safetensors.numpy").save(arrays, metadata=metadata or None)
    assert path.read_bytes() == expected
