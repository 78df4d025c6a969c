"""Memory shared with NumPy and PyTorch by DLPack, and capsules that nobody should trust."""

from __future__ import annotations

import ctypes
import gc
import sys
import threading
import weakref

import layouts
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kael
from kael import _dlpack

needs_torch = layouts.needs_torch


class View(ctypes.Structure):
    """DLTensor."""

    _fields_ = [
        ("data", ctypes.c_void_p),
        ("device", ctypes.c_int32 * 2),
        ("rank", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    ]


class Managed(ctypes.Structure):
    """DLManagedTensorVersioned."""


DELETER = ctypes.CFUNCTYPE(None, ctypes.POINTER(Managed))
Managed._fields_ = [
    ("major", ctypes.c_uint32),
    ("minor", ctypes.c_uint32),
    ("context", ctypes.c_void_p),
    ("deleter", DELETER),
    ("flags", ctypes.c_uint64),
    ("view", View),
]


class Producer:
    """A library whose one tensor is made by hand: float32 [2, 3] unless told otherwise."""

    def __init__(self, shape=(2, 3), strides=(3, 1), name=b"dltensor_versioned", **fields):
        self.memory = np.arange(16, dtype=np.float32)
        self.name = name
        self.given_back = 0
        self.numbers = [
            (ctypes.c_int64 * max(len(n), 1))(*n) if n is not None else None for n in (shape, strides)
        ]
        self.deleter = DELETER(self._give_back)
        self.managed = Managed(major=1, deleter=self.deleter)
        view = self.managed.view
        view.data, view.device[0], view.rank = self.memory.ctypes.data, 1, len(shape or ())
        view.code, view.bits, view.lanes = 2, 32, 1
        view.shape, view.strides = self.numbers
        for field, value in fields.items():
            setattr(self.managed if hasattr(Managed, field) else view, field, value)

    def _give_back(self, managed):
        self.given_back += 1

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, max_version):
        return _dlpack._new_capsule(ctypes.addressof(self.managed), self.name, None)


def shapes_and_layouts(dtypes):
    return st.sampled_from(dtypes).flatmap(layouts.tensors)


@given(shapes_and_layouts([dtype for dtype in layouts.DTYPES if dtype != "bfloat16"]))
def test_numpy_sees_the_memory_of_a_tensor(tensor):
    array = np.from_dlpack(tensor)
    np.testing.assert_array_equal(array, tensor.numpy())
    assert tensor.numel() == 0 or np.shares_memory(array, tensor.numpy())
    assert tensor.numel() == 0 or array.strides == tensor.numpy().strides


@needs_torch
@given(shapes_and_layouts(layouts.DTYPES))
def test_pytorch_sees_the_memory_of_a_tensor(tensor):
    import torch

    shared = torch.from_dlpack(tensor)
    layouts.assert_same(tensor, shared)
    assert tensor.numel() == 0 or (shared.data_ptr(), shared.stride()) == (tensor._info.data, tensor.strides)


@needs_torch
@settings(max_examples=100)
@given(data=st.data())
def test_the_memory_of_pytorch_is_a_tensor(data):

    original = layouts.torch_of(data.draw(shapes_and_layouts(layouts.DTYPES)))
    if original.ndim:
        original = original.transpose(0, -1)[:: data.draw(st.integers(1, 2)), ...]
    tensor = kael.from_dlpack(original)
    layouts.assert_same(tensor, original)
    if tensor.numel():
        tensor.fill_(1)
        assert bool((original == 1).all())


def test_numpy_and_kael_write_to_the_same_memory():
    array = np.arange(6.0).reshape(2, 3)
    tensor = kael.from_dlpack(array[:, ::2])
    tensor[1, 1] = -1
    assert array[1, 2] == -1
    np.from_dlpack(tensor)[0, 0] = 7
    assert tensor[0, 0].item() == 7
    assert not tensor.is_read_only


def test_read_only_memory_stays_read_only():
    array = np.arange(3.0)
    array.flags.writeable = False
    tensor = kael.from_dlpack(array)
    assert tensor.is_read_only
    assert not np.from_dlpack(tensor).flags.writeable
    with pytest.raises(
        kael.Error, match=r"read-only \(shared by DLPack\), expected memory that may be written"
    ):
        tensor.fill_(0)
    with pytest.raises(
        BufferError, match="read-only memory, for a consumer that cannot see it, expected memory"
    ):
        tensor.__dlpack__()
    assert not kael.from_dlpack(tensor.__dlpack__(copy=True)).is_read_only


def test_a_mapped_file_is_shared_without_a_copy(checkpoint):
    weights = kael.load_safetensors(checkpoint / "model.safetensors", "mapped")
    tensor = weights["wpe.weight"]
    assert tensor.is_read_only
    array = np.from_dlpack(tensor)
    assert not array.flags.writeable
    assert array.ctypes.data == tensor.numpy().ctypes.data


def test_the_version_is_what_the_consumer_knows():
    tensor = kael.tensor([1.0])
    for wanted, name in (
        (None, b"dltensor"),
        ((0, 8), b"dltensor"),
        ((1, 0), b"dltensor_versioned"),
        ((1, 3), b"dltensor_versioned"),
        ((2, 0), b"dltensor_versioned"),
    ):
        assert _dlpack._name_of(tensor.__dlpack__(max_version=wanted)) == name
    assert tensor.__dlpack_device__() == (1, 0)


def test_a_copy_is_another_memory():
    tensor = kael.tensor([1.0, 2.0])
    for copy, expected in ((True, 1.0), (False, 5.0), (None, 5.0)):
        shared = kael.from_dlpack(tensor.__dlpack__(copy=copy, dl_device=(1, 0)))
        tensor.fill_(5)
        assert shared[0].item() == expected


def test_what_cannot_be_shared_is_refused():
    tensor = kael.tensor([1.0], requires_grad=True)
    with pytest.raises(
        BufferError, match=r"requires a gradient, expected one that does not: share t\.detach\(\)"
    ):
        np.from_dlpack(tensor)
    assert np.from_dlpack(tensor.detach()) == [1]
    with pytest.raises(BufferError, match=r"dl_device is \(2, 0\), expected \(1, 0\), the CPU"):
        tensor.__dlpack__(dl_device=(2, 0))
    with pytest.raises(kael.Error, match="stream is 1, expected None"):
        tensor.__dlpack__(stream=1)


def test_memory_stays_as_long_as_someone_uses_it():
    array = np.arange(4.0)
    owner = weakref.ref(array)
    view = kael.from_dlpack(array)[1:]
    shared = np.from_dlpack(view)
    del array, view
    gc.collect()
    assert owner() is not None
    assert shared.tolist() == [1, 2, 3]
    del shared
    gc.collect()
    assert owner() is None


@pytest.mark.parametrize("max_version", [None, (1, 0)])
def test_a_capsule_that_nobody_consumes_gives_the_memory_back(max_version):
    array = np.arange(4.0)
    owner = weakref.ref(array)
    capsule = kael.from_numpy(array).__dlpack__(max_version=max_version)
    del array
    gc.collect()
    assert owner() is not None
    del capsule
    gc.collect()
    assert owner() is None


def test_a_capsule_is_consumed_once_and_by_one_thread():
    producer = Producer()
    capsule = producer.__dlpack__(max_version=None)
    results = []

    def consume():
        try:
            results.append(kael.from_dlpack(capsule))
        except kael.Error as error:
            results.append(str(error))

    threads = [threading.Thread(target=consume) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    refused = [result for result in results if isinstance(result, str)]
    assert len(refused) == 7
    assert all("was consumed before, expected one named dltensor" in message for message in refused)
    assert producer.given_back == 0
    results.clear()
    gc.collect()
    assert producer.given_back == 1


def test_memory_is_given_back_on_the_thread_that_frees_it():
    producer = Producer()
    held = [kael.from_dlpack(producer)]
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert producer.given_back == 1


def test_what_a_producer_says_is_what_the_tensor_is():
    assert kael.from_dlpack(Producer(byte_offset=8, strides=(4, 2))).tolist() == [[2, 4, 6], [6, 8, 10]]
    assert kael.from_dlpack(Producer(strides=None)).tolist() == [[0, 1, 2], [3, 4, 5]]
    assert kael.from_dlpack(Producer(strides=(0, 1))).tolist() == [[0, 1, 2], [0, 1, 2]]
    # Strides that no step is taken by mean nothing.
    assert kael.from_dlpack(Producer(shape=(1, 3), strides=(-9, 1))).tolist() == [[0, 1, 2]]
    assert kael.from_dlpack(Producer(shape=(0, 3), strides=(-9, -1), data=None)).shape == (0, 3)
    assert kael.from_dlpack(Producer(shape=(), strides=None)).item() == 0
    assert kael.from_dlpack(Producer(flags=1)).is_read_only
    assert kael.from_dlpack(Producer(minor=7)).shape == (2, 3)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"major": 2}, r"version 2\.0 of DLPack, expected 1\.0 or a later one of it"),
        ({"code": 5, "bits": 64}, "code 5 with 64 bits and 1 lanes, expected one lane of one of .*bool$"),
        ({"bits": 8}, "type code 2 with 8 bits"),
        ({"lanes": 4}, "32 bits and 4 lanes"),
        ({"device": (ctypes.c_int32 * 2)(2, 0)}, "memory of a device of type 2, expected 1, the CPU"),
        ({"strides": (3, -1)}, "the stride -1 in dimension 1, expected 0 or more: share a copy"),
        ({"rank": -1}, "-1 dimensions, expected 0 to 16"),
        ({"rank": 17}, "17 dimensions, expected 0 to 16"),
        ({"shape": None, "rank": 2}, "a tensor without a shape, expected the sizes of its 2 dimensions"),
        ({"shape": (2, -3)}, "-3"),
        ({"shape": (2**40, 2**40), "strides": None}, "1099511627776"),
        ({"strides": (2**62, 2**62)}, "the bytes of the tensor"),
        ({"data": None}, r"a tensor of shape \[2, 3\] without memory, expected 24 bytes"),
        ({"byte_offset": 2}, "memory that is not aligned, expected an address that is a multiple of 4"),
        ({"name": b"tensor"}, "the capsule is named b'tensor', expected one named dltensor or dlte"),
        ({"name": b"used_dltensor"}, "the capsule was consumed before"),
        ({"name": None}, "the capsule is named None"),
    ],
)  # fmt: skip
def test_a_hostile_capsule_is_refused_and_its_memory_given_back(fields, message):
    producer = Producer(**fields)
    with pytest.raises(kael.Error, match=message):
        kael.from_dlpack(producer)
    # A capsule of another name is none of ours.
    assert producer.given_back == ("name" not in fields)


def test_what_is_no_producer_is_a_type_error():
    for wrong in (3, [1.0], None, type("Half", (), {"__dlpack__": lambda self: None})()):
        with pytest.raises(TypeError, match="expected an object with __dlpack__ and __dlpack_device__"):
            kael.from_dlpack(wrong)
    producer = Producer()
    producer.__dlpack_device__ = None
    answers = type("Odd", (Producer,), {"__dlpack__": lambda self, **_: 3})()
    with pytest.raises(TypeError, match="__dlpack__ has answered int, expected a capsule"):
        kael.from_dlpack(answers)
    elsewhere = type("Elsewhere", (Producer,), {"__dlpack_device__": lambda self: (2, 1)})()
    with pytest.raises(kael.Error, match=r"memory of the device \(2, 1\), expected \(1, 0\), the CPU"):
        kael.from_dlpack(elsewhere)


def test_a_producer_from_before_version_1_is_asked_its_way():
    class Old:
        def __dlpack_device__(self):
            return (1, 0)

        def __dlpack__(self, stream=None):
            return kael.tensor([1, 2]).__dlpack__()

    assert kael.from_dlpack(Old()).tolist() == [1, 2]


@given(shapes_and_layouts(layouts.DTYPES))
def test_bytes_are_those_of_the_elements_in_order(tensor):
    array = tensor._view(np.dtype(np.uint16)) if tensor.dtype == "bfloat16" else tensor.numpy()
    assert bytes(tensor) == array.tobytes()


def test_an_array_of_a_tensor_is_its_memory():
    tensor = kael.tensor(np.arange(6.0).reshape(2, 3)).T
    array = np.asarray(tensor)
    array[0, 1] = 9
    assert tensor[0, 1].item() == 9
    assert np.array(tensor, dtype=np.float32).tolist() == tensor.tolist()
    memoryview(tensor.numpy())[2, 1] = -2.0
    assert tensor[2, 1].item() == -2
    with pytest.raises(kael.Error, match="requires a gradient"):
        np.asarray(kael.tensor([1.0], requires_grad=True))


def test_a_buffer_is_the_memory_where_python_can_ask_for_one():
    read_only = kael.frombuffer(b"\1\2", dtype="uint8")
    assert bytes(read_only.__buffer__(0)) == b"\1\2"
    with pytest.raises(BufferError, match="read-only memory"):
        read_only.__buffer__(1)
    tensor = kael.tensor([[1.0, 2.0]])
    if sys.version_info < (3, 12):
        with pytest.raises(TypeError):
            memoryview(tensor)
        return
    memoryview(tensor)[0, 1] = 5.0
    assert tensor.tolist() == [[1, 5]]
    assert bytes(memoryview(read_only)) == b"\1\2"
    with pytest.raises(BufferError, match="read-only memory"):
        (ctypes.c_uint8 * 2).from_buffer(read_only)
