"""Tensors on memory of NumPy and of buffers."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
import weakref

import layouts
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

import kael
from kael import _borrowing


@given(st.data())
def test_an_array_and_its_tensor_are_the_same_memory(data):
    dtype = data.draw(st.sampled_from([dtype for dtype in layouts.DTYPES if dtype != "bfloat16"]))
    shape = data.draw(layouts.shapes())
    array = np.array(data.draw(layouts.arrays(dtype, shape)))
    index = data.draw(st_numpy.basic_indices(shape, allow_newaxis=True))
    view = array[(*index, ...)].T if isinstance(index, tuple) and ... not in index else array.T
    if any(stride < 0 for stride in view.strides):
        with pytest.raises(kael.Error, match=r"expected multiples of . that are not negative"):
            kael.from_numpy(view)
        return
    tensor = kael.from_numpy(view)
    assert (tensor.dtype, tensor.shape) == (dtype, view.shape)
    np.testing.assert_array_equal(tensor.numpy(), view)
    tensor.fill_(1)
    assert (view == 1).all()
    assert view.size == 0 or np.shares_memory(tensor.numpy(), array)


def test_a_part_without_rows_may_have_any_strides():
    array = np.zeros((6, 40))[:0, :4]
    assert kael.from_numpy(array).shape == (0, 4)


def test_the_array_lives_as_long_as_a_view_of_its_tensor():
    gc.collect()
    before = len(_borrowing._borrowed)
    array = np.arange(6.0)
    owner = weakref.ref(array)
    view = kael.from_numpy(array)[2:].reshape(2, 2)
    seen = view.numpy()
    del array, view
    gc.collect()
    assert owner() is not None
    assert seen.tolist() == [[2, 3], [4, 5]]
    del seen
    gc.collect()
    assert owner() is None
    assert len(_borrowing._borrowed) == before


def test_memory_is_given_back_on_any_thread():
    array = np.zeros(3)
    owner = weakref.ref(array)
    tensors = [kael.from_numpy(array)]
    del array
    thread = threading.Thread(target=tensors.clear)
    thread.start()
    thread.join()
    assert owner() is None


def test_a_read_only_array_is_not_written():
    array = np.zeros(2)
    array.flags.writeable = False
    tensor = kael.from_numpy(array)
    assert tensor.is_read_only
    assert not tensor.numpy().flags.writeable
    with pytest.raises(
        kael.Error, match=r"add_: the tensor's memory is read-only \(borrowed from the caller\), expected"
    ):
        tensor.add_(1)
    broadcast = kael.from_numpy(np.broadcast_to(np.arange(3.0), (2, 3)))
    assert (broadcast + 1).tolist() == [[1, 2, 3]] * 2


def test_arrays_that_no_tensor_can_be_are_refused_and_forgotten():
    gc.collect()
    before = len(_borrowing._borrowed)
    record = np.zeros(3, [("a", "i1"), ("b", "<f4")])
    for array, message in (
        (np.arange(3)[::-1], r"strides of \[-8\] bytes, expected multiples of 8"),
        (record["b"], r"strides of \[5\] bytes, expected multiples of 4"),
        (np.zeros(2, ">f4"), "in the other byte order, expected this machine's"),
        (np.zeros(2, np.uint16), "there is no tensor of uint16, expected one of float32, .*, bool$"),
        (np.zeros((1,) * 17), "from_numpy: an array of 17 dimensions, expected at most 16"),
        (
            np.frombuffer(bytes(9), np.uint8)[1:].view("f8"),
            "not aligned, expected an address that is a multiple of 8",
        ),
    ):
        with pytest.raises(kael.Error, match=message):
            kael.from_numpy(array)
    with pytest.raises(TypeError, match="from_numpy: argument 1 is list"):
        kael.from_numpy([1])
    assert len(_borrowing._borrowed) == before


def test_a_buffer_is_read_where_it_is():
    memory = bytearray(np.arange(4, dtype=np.int32).tobytes())
    tensor = kael.frombuffer(memory, dtype="int32", count=2, offset=4)
    assert tensor.tolist() == [1, 2]
    tensor[0] = 7
    assert np.frombuffer(memory, np.int32).tolist() == [0, 7, 2, 3]
    assert kael.frombuffer(b"\x80\x3f\x00\x40", dtype="bfloat16").tolist() == [1, 2]
    assert kael.frombuffer(b"abc", dtype="uint8").is_read_only
    assert kael.frombuffer(b"abcd", dtype="uint8", count=0).shape == (0,)
    for arguments, message in (
        ({"dtype": "int32"}, "frombuffer: buffer size must be a multiple of element size"),
        ({"dtype": "uint8", "count": 4}, "frombuffer: buffer is smaller than requested size"),
        (
            {"dtype": "uint8", "offset": 4},
            "frombuffer: offset must be non-negative and no greater than buffer",
        ),
        ({"dtype": "int7"}, "frombuffer: dtype is 'int7', expected one of float32"),
    ):
        with pytest.raises(kael.Error, match=message):
            kael.frombuffer(b"abc", **arguments)
    with pytest.raises(TypeError):
        kael.frombuffer([1], dtype="uint8")
    with pytest.raises(TypeError, match="frombuffer: dtype must be a str"):
        kael.frombuffer(b"abc", dtype=np.uint8)


@pytest.mark.parametrize(
    "made",
    [
        "kael.from_numpy(np.zeros(3))",
        "kael.from_dlpack(np.zeros(3))",
        "kael.from_numpy(np.zeros(3)).__dlpack__()",
        "kael.tensor([1]).__dlpack__(max_version=(1, 0))",
        "kael.tensor([1.0], requires_grad=True).register_hook(print)",
    ],
)
def test_what_outlives_every_module_is_freed_without_harm(made):
    program = f"import kael, sys, numpy as np; sys.kept = {made}"
    ended = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (ended.returncode, ended.stderr) == (0, "")
