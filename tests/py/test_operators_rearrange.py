"""What puts elements elsewhere, against PyTorch and NumPy."""

from __future__ import annotations

import layouts
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from pytorch import torch

import kael
from kael._apply import apply


def same(answer, expected):
    layouts.assert_same(answer, expected)


def some_dimension(data, ndim):
    return data.draw(st.integers(-ndim, ndim - 1))


def tensors_with_dimensions(data, dtypes=layouts.DTYPES):
    shape = data.draw(layouts.shapes().filter(len))
    return data.draw(layouts.tensors(data.draw(st.sampled_from(dtypes)), shape))


@settings(max_examples=120)
@given(data=st.data())
def test_tensors_follow_each_other(data):
    shape = list(data.draw(layouts.shapes().filter(len)))
    dim = some_dimension(data, len(shape))
    parts = []
    for _ in range(data.draw(st.integers(1, 4))):
        shape[dim] = data.draw(st.integers(0, 4))
        parts.append(data.draw(layouts.tensors(data.draw(st.sampled_from(layouts.DTYPES)), tuple(shape))))
    assume(not {"int8", "uint8"} <= {part.dtype for part in parts})
    assume("float16" not in {part.dtype for part in parts} or "int64" not in {part.dtype for part in parts})
    same(kael.cat(parts, dim), torch.cat([layouts.torch_of(part) for part in parts], dim))


@settings(max_examples=60)
@given(data=st.data())
def test_tensors_lie_upon_each_other(data):
    shape = data.draw(layouts.shapes())
    dtype = data.draw(st.sampled_from(layouts.DTYPES))
    parts = [data.draw(layouts.tensors(dtype, shape)) for _ in range(data.draw(st.integers(1, 3)))]
    dim = data.draw(st.integers(-len(shape) - 1, len(shape)))
    same(kael.stack(parts, dim), torch.stack([layouts.torch_of(part) for part in parts], dim))


def indices(data, shape, size):
    number = st.integers(0, max(size - 1, 0))
    count = int(np.prod(shape, dtype=int))
    values = data.draw(st.lists(number, min_size=count, max_size=count))
    made = (layouts.contiguous, layouts.transposed, layouts.sliced)
    return data.draw(st.sampled_from(made))(np.array(values, np.int64).reshape(shape), "int64")


@settings(max_examples=100)
@given(data=st.data())
def test_slices_are_picked_and_added(data):
    x = tensors_with_dimensions(data)
    dim = some_dimension(data, x.ndim)
    assume(x.shape[dim] > 0)
    index = indices(data, (data.draw(st.integers(0, 5)),), x.shape[dim])
    picked = kael.index_select(x, dim, index)
    same(picked, torch.index_select(layouts.torch_of(x), dim, layouts.torch_of(index)))
    if x.dtype in ("float64", "int32", "uint8"):
        whole = without_infinities(x)
        source = without_infinities(picked)
        expected = layouts.torch_of(whole).index_add(dim, layouts.torch_of(index), layouts.torch_of(source))
        same(kael.index_add(whole, dim, index, source), expected)
        copy = whole.clone()
        assert copy.index_add_(dim, index, source) is copy
        same(copy, expected)


def without_infinities(x):
    array = np.array(x.numpy())
    return kael.tensor(np.where(np.isfinite(array), array, array.dtype.type(1)))


@settings(max_examples=120)
@given(data=st.data())
def test_elements_are_gathered_and_added_where_they_were(data):
    x = tensors_with_dimensions(data)
    dim = some_dimension(data, x.ndim)
    assume(x.shape[dim] > 0)
    shape = [data.draw(st.integers(0, size)) for size in x.shape]
    shape[dim] = data.draw(st.integers(0, 5))
    index = indices(data, shape, x.shape[dim])
    gathered = kael.gather(x, dim, index)
    same(gathered, torch.gather(layouts.torch_of(x), dim, layouts.torch_of(index)))
    if x.dtype in ("float64", "int64", "int8"):
        whole, source = without_infinities(x), without_infinities(gathered)
        expected = layouts.torch_of(whole).scatter_add(dim, layouts.torch_of(index), layouts.torch_of(source))
        same(kael.scatter_add(whole, dim, index, source), expected)
        copy = whole.clone()
        assert copy.scatter_add_(dim, index, source) is copy
        same(copy, expected)


@settings(max_examples=120)
@given(data=st.data())
def test_elements_are_scattered_to_where_they_would_be_gathered(data):
    plain = (layouts.contiguous, layouts.transposed, layouts.sliced)
    dtype = data.draw(st.sampled_from(layouts.DTYPES))
    x = data.draw(layouts.tensors(dtype, data.draw(layouts.shapes().filter(len)), plain))
    dim = some_dimension(data, x.ndim)
    size = x.shape[dim]
    shape = [data.draw(st.integers(0, n)) for n in x.shape]
    # Each place at most once, for PyTorch promises nothing of those that are named twice.
    order = np.array(data.draw(st.permutations(range(size)))[: shape[dim]], np.int64)
    places = np.broadcast_to(np.expand_dims(order, [i for i in range(x.ndim) if i != dim % x.ndim]), shape)
    index = data.draw(st.sampled_from(plain))(places, "int64")
    source = data.draw(layouts.tensors(dtype, tuple(shape)))
    there = layouts.torch_of(x), dim, layouts.torch_of(index)
    same(kael.scatter(x, dim, index, source), torch.scatter(*there, layouts.torch_of(source)))
    number = {"b": True, "i": 7, "u": 7, "f": -2.5}[dtype[0]]
    expected = torch.scatter(*there, number)
    same(x.scatter(dim, index, value=number), expected)
    assert x.scatter_(dim, index, number) is x
    same(x, expected)


def test_of_several_elements_for_one_place_the_last_one_stays_and_gets_the_gradient():
    source = kael.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], requires_grad=True)
    x = kael.zeros(2, 2).requires_grad_()
    y = x.scatter(0, kael.tensor([[0, 1], [0, 0], [0, 1]]), source)
    assert y.tolist() == [[5, 4], [0, 6]]
    (y * kael.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert source.grad.tolist() == [[0, 0], [0, 2], [1, 4]]
    assert x.grad.tolist() == [[0, 0], [3, 0]]


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3), (2, 0, 3)])
def test_an_empty_index_gathers_and_scatters_nothing(shape):
    x = kael.full([3] * len(shape), 1.0)
    index, source = kael.zeros(*shape).to("int64"), kael.zeros(*shape)
    dim = shape.index(0)
    assert x.gather(dim, index).shape == shape
    assert x.scatter_add(dim, index, source).tolist() == x.tolist()
    assert x.scatter(dim, index, source).tolist() == x.tolist()
    assert x.scatter(dim, index, value=3.0).tolist() == x.tolist()


def test_a_scattered_tensor_may_hold_its_own_index():
    x = kael.tensor([1, 2, 0])
    x.scatter_(0, x, x)
    assert x.tolist() == [0, 1, 2]


@settings(max_examples=80)
@given(data=st.data())
def test_a_mask_is_filled(data):
    x = data.draw(layouts.tensors(data.draw(st.sampled_from(layouts.DTYPES))))
    mask = data.draw(layouts.tensors("bool", tuple(1 if data.draw(st.booleans()) else n for n in x.shape)))
    value = {"b": True, "i": 7, "u": 7, "f": -2.5}[x.dtype[0]]
    expected = layouts.torch_of(x).masked_fill(layouts.torch_of(mask), value)
    same(kael.masked_fill(x, mask, value), expected)
    copy = x.clone()
    assert copy.masked_fill_(mask, value) is copy
    same(copy, expected)


@settings(max_examples=100)
@given(data=st.data())
def test_elements_are_reversed_and_rolled(data):
    x = tensors_with_dimensions(data)
    dims = data.draw(st.lists(st.integers(0, x.ndim - 1), unique=True, min_size=1))
    same(kael.flip(x, dims), torch.flip(layouts.torch_of(x), dims))
    shifts = [data.draw(st.integers(-9, 9)) for _ in dims]
    same(kael.roll(x, shifts, dims), torch.roll(layouts.torch_of(x), shifts, dims))
    same(kael.roll(x, shifts[0]), torch.roll(layouts.torch_of(x), shifts[0]))


@settings(max_examples=80)
@given(data=st.data())
def test_tensors_are_repeated_and_padded(data):
    x = tensors_with_dimensions(data)
    counts = [data.draw(st.integers(0, 3)) for _ in range(x.ndim + data.draw(st.integers(0, 2)))]
    same(x.repeat(*counts), layouts.torch_of(x).repeat(*counts))
    amounts = []
    for size in reversed(x.shape[-data.draw(st.integers(1, x.ndim)) :]):
        before = data.draw(st.integers(-size, 3))
        amounts += [before, data.draw(st.integers(-size - min(before, 0), 3))]
    value = x.dtype != "bool" and 7
    # Refused there where nothing is left.
    if all(
        n + sum(p) > 0
        for n, p in zip(reversed(x.shape), zip(amounts[::2], amounts[1::2], strict=True), strict=False)
    ):
        same(
            kael.pad(x, amounts, value=value),
            torch.nn.functional.pad(layouts.torch_of(x), amounts, value=value),
        )


@pytest.mark.parametrize("mode", ["reflect", "replicate", "circular"])
@settings(max_examples=50)
@given(data=st.data())
def test_tensors_are_padded_with_their_own_elements(mode, data):
    shape = data.draw(layouts.shapes(max_side=5).filter(lambda s: s and all(s)))
    dtype = data.draw(st.sampled_from(["float32", "float64", "int64"]))
    x = data.draw(layouts.tensors(dtype, (1, 2, *shape)))
    amounts = []
    for size in reversed(shape):
        before = data.draw(st.integers(1 - size, size - 1))
        left = size + min(before, 0)
        after = data.draw(st.integers(1 - left, left if mode == "circular" else size - 1))
        amounts += [before if mode != "circular" else min(before, size + min(after, 0)), after]
    expected = torch.nn.functional.pad(layouts.torch_of(x), amounts, mode=mode)
    same(kael.pad(x, amounts, mode), expected)


@settings(max_examples=100)
@given(data=st.data())
def test_parts_are_views_of_the_whole(data):
    x = tensors_with_dimensions(data, ("float32", "int64"))
    dim = some_dimension(data, x.ndim)
    size = x.shape[dim]
    reference = layouts.torch_of(x)
    step = data.draw(st.integers(1, 6))
    sizes = data.draw(st.lists(st.integers(0, size), max_size=3).filter(lambda s: sum(s) <= size))
    sizes.append(size - sum(sizes))
    answers = [
        (x.split(step, dim), reference.split(step, dim)),
        (x.split(sizes, dim), reference.split(sizes, dim)),
    ]
    if size:
        answers.append((x.chunk(step, dim), reference.chunk(step, dim)))
    for parts, expected in answers:
        assert len(parts) == len(expected)
        for part, other in zip(parts, expected, strict=True):
            same(part, other)
            assert part.numel() == 0 or np.shares_memory(part.numpy(), x.numpy())
    start = data.draw(st.integers(0, size))
    length = data.draw(st.integers(0, size - start))
    same(x.narrow(dim, start, length), reference.narrow(dim, start, length))


@settings(max_examples=80)
@given(data=st.data())
def test_dimensions_are_joined(data):
    x = data.draw(layouts.tensors("int64"))
    first, last = sorted(data.draw(st.integers(0, max(x.ndim - 1, 0))) for _ in range(2))
    same(x.flatten(first, last), layouts.torch_of(x).flatten(first, last))
    same(x.flatten(), layouts.torch_of(x).flatten())


@settings(max_examples=80)
@given(data=st.data())
def test_diagonals_are_views(data):
    x = data.draw(layouts.tensors("float32", data.draw(layouts.shapes().filter(lambda s: len(s) > 1))))
    dims = data.draw(st.permutations(range(x.ndim)))[:2]
    offset = data.draw(st.integers(-x.shape[dims[0]], x.shape[dims[1]]))
    diagonal = x.diagonal(offset, *dims)
    same(diagonal, layouts.torch_of(x).diagonal(offset, *dims))
    assert diagonal.numel() == 0 or np.shares_memory(diagonal.numpy(), x.numpy())


def test_a_diagonal_is_written_through():
    x = kael.zeros(3, 3)
    x.diagonal(1).fill_(2)
    x.diagonal().copy_(kael.tensor([1.0, 2.0, 3.0]))
    assert x.tolist() == [[1, 2, 0], [0, 2, 2], [0, 0, 3]]


@pytest.mark.usefixtures("threads_restored")
def test_sums_that_meet_are_added_in_order_whatever_the_threads():
    random = np.random.default_rng(0)
    index = kael.tensor(random.integers(0, 50, 3000))
    source = kael.tensor(random.normal(size=(3000, 70)).astype(np.float32))
    results = set()
    for threads in (1, 2, 7):
        kael.set_num_threads(threads)
        results.add(kael.index_add(kael.zeros(50, 70), 0, index, source).numpy().tobytes())
    expected = np.zeros((50, 70), np.float32)
    np.add.at(expected, index.numpy(), source.numpy())
    assert results == {expected.tobytes()}


def test_wrong_indices_and_shapes_are_named():
    x = kael.tensor(np.arange(6.0).reshape(2, 3))
    zeros = kael.zeros(2, dtype="int64")
    for call, message in (
        (lambda: kael.gather(x, 1, kael.tensor([[3]])), "gather: index 3 in dimension 1 of size 3, exp"),
        (lambda: kael.gather(x, 0, kael.tensor([[-1]])), "gather: index -1 in dimension 0"),
        (lambda: kael.gather(x, 0, zeros), r"gather: an index of shape \[2\] for a tensor of shape \[2, 3\]"),
        (lambda: kael.gather(x, 0, zeros.float()), "gather: an index of dtype float32, expected int64"),
        (lambda: kael.index_select(x, 0, kael.tensor([-1])), "index_select: index -1 in dimension 0 of"),
        (lambda: kael.index_select(x, 0, kael.tensor([[0]])), r"index_select: an index of shape \[1, 1\]"),
        (lambda: kael.index_add(x, 0, zeros, x.float()), "index_add: tensors of dtype float64 and float32"),
        (lambda: kael.index_add(x, 1, zeros, x), r"a source of shape \[2, 3\], expected \[2, 2\]"),
        (lambda: kael.scatter_add(x, 0, zeros[None] + 2, x[:1, :2]), "scatter_add: index 2 in dimension 0"),
        (lambda: kael.scatter(x, 0, zeros[None] + 2, 1.0), "scatter: index 2 in dimension 0 of size 2"),
        (lambda: kael.scatter(x, 0, zeros, 1.0), r"scatter: an index of shape \[2\] for a tensor of shape"),
        (lambda: kael.scatter(x, 0, zeros[None], x), r"scatter: a source of shape \[2, 3\], expected"),
        (lambda: kael.scatter(x, 0, zeros[None], x[:1, :2].float()), "scatter: tensors of dtype float64 and"),
        (lambda: zeros.scatter(0, zeros, 0.5), "scatter: the number 0.5 .* expected an integer or a bool"),
        (lambda: zeros.to("int8").scatter(0, zeros, 128), "scatter: the number 128 does not fit"),
        (lambda: kael.zeros(1).expand(2).scatter_(0, zeros, 1.0), "share memory .* expected a place for"),
        (lambda: kael.masked_select(x, x), "masked_select: a mask of dtype float64, expected bool"),
        (lambda: kael.masked_select(x, zeros > 0), r"the shapes \[2, 3\] and \[2\] do not broadcast"),
        (lambda: kael.cat([x, kael.zeros(0)]), r"cat: the shapes \[2, 3\] and \[0\] .* expected equal"),
        (lambda: kael.cat([x, x[:, :2]]), "elsewhere than in dimension 0, expected equal sizes in all"),
        (lambda: kael.cat([kael.tensor(1)]), "cat: tensors without .*, expected one or more: use stack"),
        (lambda: kael.cat([]), "cat: no tensors"),
        (lambda: kael.stack([x, x[0]]), r"stack: the shapes \[2, 3\] and \[3\], expected equal ones"),
        (lambda: kael.masked_fill(zeros, zeros < 1, 0.5), "a value of dtype float32 .* expected one that"),
        (lambda: kael.masked_fill(x, x > 1, x), r"masked_fill: a value of shape \[2, 3\], expected a number"),
        (lambda: kael.masked_fill(x, x, 1), "a condition of dtype float64, expected bool"),
        (lambda: kael.roll(x, [1, 2]), "roll: 2 shifts without dimensions, expected one"),
        (lambda: kael.roll(x, [1, 2], 0), "roll: 2 shifts for 1 dimensions, expected as many"),
        (lambda: x.repeat(2), r"repeat: 1 counts for a tensor of shape \[2, 3\], expected at least 2"),
        (lambda: x.repeat(2, -1), r"repeat: the counts \[2, -1\] have a negative one, expected 0 or more"),
        (lambda: kael.pad(x, [1]), "pad: 1 amounts"),
        (lambda: kael.pad(x, [-2, -2]), r"pad: 4 elements to take away in dimension 1 .* expected at most 3"),
        (lambda: kael.pad(x, [0, 3], "reflect"), "pad: 3 elements to add in .* expected at most 2"),
        (lambda: kael.pad(x, [-1, 3], "circular"), "pad: 3 elements .* expected at most 2 in this"),
        (lambda: kael.pad(x[:0], [0, 0, 1, 0], "replicate"), "pad: 1 elements .* expected at most 0 in"),
        (lambda: kael.pad(x, [-2, -2], "circular"), "pad: 4 elements to take away in dimension 1"),
        (lambda: apply("pad", x, [1, 1], 0, 4), "pad: the mode 4 is unknown, expected 0 to 3"),
        (lambda: kael.pad(x, [1, 1], "mirror"), "pad: mode is 'mirror', expected 'constant' or 'reflect'"),
        (lambda: kael.pad(kael.tensor([1]), [1, 1], value=0.5), "pad: the value 0.5 .* expected an integer"),
        (lambda: x.narrow(0, 1, 2), "narrow: 2 elements from 1 on, in dimension 0 .* expected 0 to 1"),
        (lambda: x.narrow(0, 0, -1), "narrow: -1 elements from 0 on, in dimension 0 .* expected 0 to 2"),
        (lambda: x.narrow(1, 4, 0), r"narrow: the start 4 in dimension 1 .* \[2, 3\], expected -3 to 3"),
        (lambda: x.narrow(1, -4, 1), "narrow: the start -4 in dimension 1 .* expected -3 to 3"),
        (lambda: x.split([1, 3], 1), "add up to 4, expected 3, the size of dimension 1"),
        (lambda: x.split([-1, 4], 1), r"split: the sizes \[-1, 4\] have a negative one, expected 0 or more"),
        (lambda: x.split(1, 2), "split: dimension 2 of a tensor"),
        (lambda: x.chunk(0), "chunk: chunks is 0"),
        (lambda: x.flatten(1, 0), "flatten: from dimension 1 to 0"),
        (lambda: x.diagonal(4), r"diagonal: 4 beside the main one .* expected -2 to 3"),
        (lambda: x.diagonal(0, 1, 1), "diagonal: dimension 1 twice, expected two different ones"),
    ):  # fmt: skip
        with pytest.raises(kael.Error, match=message):
            call()
    for call in (lambda: kael.scatter(x, 0, zeros), lambda: kael.scatter(x, 0, zeros, x, value=1)):
        with pytest.raises(TypeError, match="expected either src, a tensor or a number, or value"):
            call()
    for call in (lambda: kael.cat(x), lambda: kael.cat([x, 1]), lambda: kael.stack([None])):
        with pytest.raises(TypeError, match="argument 1 must be a list of tensors"):
            call()


@pytest.mark.usefixtures("threads_restored")
def test_the_first_of_several_wrong_indices_is_named_whatever_the_threads():
    wrong = np.zeros(100_000, np.int64)
    wrong[[30_000, 90_000]] = [8, 9]
    x, index = kael.zeros(3), kael.tensor(wrong)
    divisor, exponent = kael.tensor(1 - (wrong > 0)), kael.tensor(-wrong)
    for threads in (1, 2, 7):
        kael.set_num_threads(threads)
        for call, message in (
            (lambda: x.gather(0, index), "gather: index 8 "),
            (lambda: x.index_select(0, index), "index_select: index 8 "),
            (lambda: kael.tensor(2) ** exponent, "to the power -8,"),
            (lambda: kael.tensor(2) // divisor, "divided by 0"),
        ):
            with pytest.raises(kael.Error, match=message):
                call()
