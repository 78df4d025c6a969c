"""kael.Tensor: memory of the library, seen from NumPy."""

from __future__ import annotations

import copy
import gc
import math
import pickle
import threading

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

import kael

NUMPY_DTYPES = ["float32", "float64", "float16", "int64", "int32", "int8", "uint8", "bool"]


@given(
    st.sampled_from(NUMPY_DTYPES).flatmap(
        lambda dtype: st_numpy.arrays(
            dtype, st_numpy.array_shapes(min_dims=0, max_dims=5, min_side=0, max_side=4)
        )
    )
)
def test_an_array_survives_the_way_there_and_back(array):
    tensor = kael.tensor(array)
    assert tensor.dtype == array.dtype.name
    assert tensor.shape == array.shape
    assert tensor.ndim == array.ndim
    assert tensor.numel() == array.size
    assert tensor.nbytes == array.nbytes
    assert tensor.numpy().dtype == array.dtype
    np.testing.assert_array_equal(tensor.numpy(), array)


def test_numpy_shares_the_memory():
    tensor = kael.tensor([[1.0, 2.0], [3.0, 4.0]])
    tensor.numpy()[0, 1] = 20.0
    assert tensor.tolist() == [[1.0, 20.0], [3.0, 4.0]]
    np.testing.assert_array_equal(np.asarray(tensor), tensor.numpy())
    assert np.shares_memory(np.asarray(tensor), tensor.numpy())


def test_an_array_keeps_the_memory_of_its_tensor_alive():
    array = kael.tensor(np.arange(100_000)).numpy()
    gc.collect()
    others = [kael.tensor(np.zeros(100_000, np.int64)) for _ in range(4)]
    assert array[-1] == 99_999
    assert len(others) == 4


def test_a_tensor_copies_what_it_is_made_from():
    array = np.arange(3.0)
    tensor = kael.tensor(array)
    array[0] = 9.0
    assert tensor.tolist() == [0.0, 1.0, 2.0]


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.5, "float32"),
        ([1, 2], "int64"),
        ([True], "bool"),
        ([[1, 2.5]], "float32"),
        (np.float64(1), "float64"),
    ],
)
def test_the_natural_type_of_numbers(data, dtype):
    assert kael.tensor(data).dtype == dtype


def test_strides_count_elements():
    tensor = kael.tensor(np.zeros((2, 3, 4), np.float32))
    assert tensor.strides == (12, 4, 1)
    assert tensor.is_contiguous()
    assert not tensor.is_read_only


def test_a_transposed_array_is_copied_by_its_values():
    array = np.arange(6).reshape(2, 3).T
    assert kael.tensor(array).tolist() == array.tolist()


def test_views_share_memory_and_refuse_another_count():
    tensor = kael.tensor(np.arange(6))
    view = tensor.view(2, -1)
    view.numpy()[1, 2] = 50
    assert tensor.tolist() == [0, 1, 2, 3, 4, 50]
    assert view.shape == (2, 3)
    with pytest.raises(kael.Error):
        tensor.view(4, 2)
    with pytest.raises(kael.Error, match="17 dimensions"):
        tensor.view(*[1] * 17)


@given(st_numpy.arrays(np.float32, st_numpy.array_shapes(min_dims=0, max_dims=2, max_side=8)))
def test_bfloat16_rounds_to_nearest_even_and_widens_exactly(array):
    torch = pytest.importorskip("torch", reason="PyTorch, the reference for bfloat16, is not installed")
    expected = torch.from_numpy(array.copy()).bfloat16().float().numpy()
    widened = kael.tensor(array, dtype="bfloat16").float()
    assert widened.dtype == "float32"
    np.testing.assert_array_equal(widened.numpy(), expected)


def test_bfloat16_without_an_oracle():
    bits = np.array([0x3F808000, 0x3F818000, 0x7F7FFFFF, 0x7FC00000, 0x7F800001, 0xFF800000], np.uint32)
    wide = kael.tensor(bits.view(np.float32), dtype="bfloat16").float().numpy()
    expected = np.array([0x3F800000, 0x3F820000, 0x7F800000], np.uint32).view(np.float32)
    np.testing.assert_array_equal(wide[:3], expected)
    assert np.isnan(wide[3])
    assert np.isnan(wide[4])
    assert wide[5] == -np.inf


@pytest.mark.parametrize("value", [1 + 2**-8 + 2**-40, -(1 + 2**-8 + 2**-40), 2**60 + 2**52 + 1])
def test_bfloat16_is_rounded_once(value):
    unit = 2**-7 if isinstance(value, float) else 2**53
    away = math.copysign(unit, value) + math.copysign(1.0 if isinstance(value, float) else 2.0**60, value)
    for data in ([value], np.array([value])):
        assert kael.tensor(data, dtype="bfloat16").item() == away


@pytest.mark.parametrize("dtype", ["bool", "float16", "float64", "int16", "uint32", "uint64", "float32"])
def test_bfloat16_is_made_of_every_dtype(dtype):
    array = np.array([[0, 1], [1, 0]], dtype)
    assert kael.tensor(array, dtype="bfloat16").tolist() == array.tolist()


@pytest.mark.parametrize("data", [[1, 2**63], [[2**63], [-1]], [2**64, 1]])
@pytest.mark.parametrize("dtype", [None, "int64"])
def test_integers_that_no_dtype_holds_together_do_not_become_floats(data, dtype):
    with pytest.raises(kael.Error, match="outside the range of int64"):
        kael.tensor(data, dtype=dtype)
    assert kael.tensor([1, 2**63], dtype="float64").tolist() == [1.0, 2.0**63]


def test_lists_that_contain_themselves_are_refused():
    endless = [1, 2]
    endless[:] = [endless, endless]
    with pytest.raises(kael.Error, match="more than 16 dimensions, or contains itself, expected at most 16"):
        kael.tensor(endless)


def test_integers_beside_floats_keep_their_digits():
    assert kael.tensor([[2**53 + 1], [0.0]], dtype="int64").tolist() == [[2**53 + 1], [0]]
    assert kael.tensor([2**53 + 1, 0.5]).dtype == "float32"
    for data in ([2**53 + 1, 0.5], [2**53 + 1, math.nan], [2**53, math.inf]):
        with pytest.raises(kael.Error, match="a value that int64 cannot represent"):
            kael.tensor(data, dtype="int64")
    with pytest.raises(
        kael.Error, match="a value that int8 cannot represent, expected integers from -128 to 127"
    ):
        kael.tensor([2**53 + 1, 0.0], dtype="int8")


def test_bfloat16_has_no_numpy_type_but_reads_as_numbers():
    tensor = kael.tensor([1.5, -2.0], dtype="bfloat16")
    assert tensor.nbytes == 4
    assert tensor.tolist() == [1.5, -2.0]
    assert "1.5" in repr(tensor)
    with pytest.raises(kael.Error, match=r"float\(\)") as caught:
        tensor.numpy()
    assert caught.value.code is kael.ErrorCode.UNSUPPORTED


def test_conversions_keep_every_value_or_refuse():
    assert kael.tensor([0, 255], dtype="uint8").tolist() == [0, 255]
    assert kael.tensor([1, 0], dtype="bool").tolist() == [True, False]
    assert kael.tensor(np.array([1.0, 3.0]), dtype="int32").tolist() == [1, 3]
    assert kael.tensor([0.1], dtype="float16").numpy().dtype == np.float16
    for data, dtype in [
        ([256], "uint8"),
        ([-1], "uint8"),
        ([1.5], "int64"),
        ([np.nan], "int32"),
        ([2], "bool"),
    ]:
        with pytest.raises(kael.Error, match=f"{dtype} cannot represent, expected integers from "):
            kael.tensor(data, dtype=dtype)


@pytest.mark.parametrize("data", [["a"], [b"x"], [None], [1j], [object()], "text"])
def test_what_is_no_number_is_a_type_error(data):
    with pytest.raises(TypeError):
        kael.tensor(data)


def test_wrong_values_name_what_is_wrong():
    with pytest.raises(kael.Error, match="outside the range of int64"):
        kael.tensor([2**70])
    with pytest.raises(kael.Error, match="different lengths, expected equal ones"):
        kael.tensor([[1, 2], [3]])
    with pytest.raises(kael.Error, match="'float8', expected one of float32"):
        kael.tensor([1], dtype="float8")
    with pytest.raises(TypeError, match="dtype must be a str"):
        kael.tensor([1], dtype=np.float32)
    with pytest.raises(kael.Error, match="17 dimensions"):
        kael.tensor(np.zeros([1] * 17))
    with pytest.raises(kael.Error, match="uint16"):
        kael.tensor(np.zeros(1, np.uint16))
    with pytest.raises(TypeError, match=r"kael\.tensor"):
        kael.Tensor()


def test_single_elements_and_lengths():
    assert kael.tensor(2.5).item() == 2.5
    assert kael.tensor([[7]]).item() == 7
    assert len(kael.tensor([[1], [2], [3]])) == 3
    with pytest.raises(kael.Error, match=r"item\(\) of a tensor of shape \[2\], expected one element"):
        kael.tensor([1, 2]).item()
    with pytest.raises(TypeError):
        len(kael.tensor(1))


def test_numpy_asks_for_types_and_copies():
    tensor = kael.tensor([1.0, 2.0])
    assert np.asarray(tensor, dtype=np.float64).dtype == np.float64
    copy = np.array(tensor)
    copy[0] = 5
    assert tensor.tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match="by a copy alone, expected copy not to be False"):
        tensor.__array__(np.float64, copy=False)


def test_repr_reads_well_and_stays_short():
    assert repr(kael.tensor([[1.0, 2.5]])) == "tensor([[1. , 2.5]], shape=[1, 2], dtype=float32)"
    assert len(repr(kael.tensor(np.zeros(1_000_000)))) < 300
    assert repr(kael.tensor(np.zeros((0, 3), np.int64))) == "tensor([], shape=[0, 3], dtype=int64)"


def test_detach_gives_the_same_memory():
    tensor = kael.tensor([1.0])
    assert np.shares_memory(tensor.detach().numpy(), tensor.numpy())


def test_tensors_may_be_freed_on_any_thread():
    tensors = [kael.tensor(np.zeros(10_000)) for _ in range(20)]
    thread = threading.Thread(target=tensors.clear)
    thread.start()
    thread.join()
    assert tensors == []


def test_an_error_survives_pickling():
    with pytest.raises(kael.Error) as caught:
        kael.tensor([1.0]).view(2)
    error = pickle.loads(pickle.dumps(caught.value))
    assert str(error) == str(caught.value)
    assert (error.message, error.code) == (caught.value.message, caught.value.code)


def test_an_error_of_the_library_has_its_whole_text():
    with pytest.raises(kael.Error) as caught:
        kael.tensor([1.0]).view(2)
    assert str(caught.value).startswith("kael error at ")
    assert str(caught.value).endswith(f"failed: {caught.value.message}")
    assert caught.value.code is kael.ErrorCode.INVALID_ARGUMENT


def test_objects_that_are_integers_are_integers():
    assert kael.tensor(np.array([1, -2], object)).tolist() == [1, -2]
    with pytest.raises(kael.Error, match="outside the range of int64"):
        kael.tensor([2**70])
    for wrong in ([1, True], [1, None], [1, "a"]):
        with pytest.raises(TypeError, match="must be numbers, not object"):
            kael.tensor(np.array(wrong, object))


def test_a_number_too_large_for_a_float_type_becomes_infinite_in_silence(recwarn):
    for dtype in ("bfloat16", "float16", "float32"):
        assert kael.tensor([1e39, -1e39], dtype=dtype).tolist() == [np.inf, -np.inf]
    assert not recwarn.list


def test_handles_are_not_copied_or_pickled(tiny, checkpoint, capfd):
    tokenizer = kael.BpeTokenizer(checkpoint / "vocab.json", checkpoint / "merges.txt")
    for value in (kael.tensor([1]), tiny, tokenizer, kael.TokenRing(1)):
        for act in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match=rf"kael\.{type(value).__name__} cannot be copied or pickled"):
                act(value)
    with pytest.raises(TypeError, match=r"; clone\(\) copies it, kael\.save_safetensors keeps it$"):
        copy.copy(kael.tensor([1]))
    with pytest.raises(TypeError, match="; save_pretrained keeps it"):
        copy.copy(tiny)
    gc.collect()
    assert capfd.readouterr().err == ""


def test_one_element_is_formatted_as_a_number():
    assert f"{kael.tensor([[2.5]]):.3f} {kael.tensor(7):>4d}" == "2.500    7"
    several = kael.tensor([1.0, 2.0])
    assert f"{several}" == str(several)
    with pytest.raises(kael.Error, match=r"item\(\) of a tensor of shape \[2\], expected one element"):
        f"{several:.3f}"
