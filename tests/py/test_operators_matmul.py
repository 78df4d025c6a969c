"""Products of matrices against PyTorch and exact arithmetic."""

from __future__ import annotations

import itertools
import math

import layouts
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kael

FORMS = [
    ("vector and vector", lambda b, m, k, n: ((k,), (k,))),
    ("matrix and vector", lambda b, m, k, n: ((m, k), (k,))),
    ("vector and matrix", lambda b, m, k, n: ((k,), (k, n))),
    ("matrix and matrix", lambda b, m, k, n: ((m, k), (k, n))),
    ("batch and matrix", lambda b, m, k, n: ((b, m, k), (k, n))),
    ("matrix and batch", lambda b, m, k, n: ((m, k), (b, k, n))),
    ("batch and batch", lambda b, m, k, n: ((b, m, k), (b, k, n))),
    ("batches that broadcast", lambda b, m, k, n: ((2, 1, m, k), (b, k, n))),
    ("batch and vector", lambda b, m, k, n: ((b, m, k), (k,))),
    ("vector and batch", lambda b, m, k, n: ((k,), (b, k, n))),
]


@pytest.mark.parametrize("form", [form for _, form in FORMS], ids=[name for name, _ in FORMS])
@settings(max_examples=60)
@given(data=st.data())
def test_products_of_every_shape_are_those_of_pytorch(form, data):
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle of this test, is not installed")
    shapes = form(*(data.draw(st.integers(0, 5)) for _ in range(4)))
    dtype = data.draw(st.sampled_from(layouts.DTYPES[:-1]))
    # Small whole numbers: every sum is exact in every dtype, so that no order of additions matters.
    number = st.integers(0, 3) if dtype == "uint8" else st.integers(-3, 3)
    a, b = (
        data.draw(st.sampled_from(layouts.LAYOUTS))(
            np.array(data.draw(st.lists(number, min_size=(n := math.prod(shape)), max_size=n)))
            .reshape(shape)
            .astype(np.float32),
            dtype,
        )
        for shape in shapes
    )
    expected = torch.matmul(layouts.torch_of(a), layouts.torch_of(b))
    layouts.assert_same(kael.matmul(a, b), expected)
    layouts.assert_same(a @ b, expected)


def exact_product(a, b):
    """In float64 with float128's help: far more digits than float32 has."""
    return a.astype(np.longdouble) @ b.astype(np.longdouble)


@pytest.mark.parametrize(
    ("m", "k", "n"), [(1, 1, 1), (1, 300, 500), (129, 65, 50), (257, 33, 400), (7, 1030, 3)]
)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_products_of_every_size_are_as_exact_as_their_sums(m, k, n, dtype):
    random = np.random.default_rng(m * k * n)
    a, b = random.normal(size=(m, k)).astype(np.float32), random.normal(size=(k, n)).astype(np.float32)
    x, y = kael.tensor(a, dtype=dtype), kael.tensor(b, dtype=dtype)
    a, b = layouts.numbers_of(x), layouts.numbers_of(y)
    bound = exact_product(abs(a), abs(b))
    epsilon = layouts.EPSILON[dtype]
    allowed = bound * k * 2**-24 * (2**-28 if dtype == "float64" else 1) + epsilon * abs(exact_product(a, b))
    assert (abs(layouts.numbers_of(x @ y) - exact_product(a, b)) <= allowed + 1e-30).all()


def test_integers_wrap_and_never_round():
    large = 2**53 + 1
    assert (kael.tensor([[large, 1]]) @ kael.tensor([[3], [1]])).tolist() == [[3 * large + 1]]
    assert (kael.tensor([2**62]) @ kael.tensor([4])).item() == 0
    assert (kael.tensor([100, 100], dtype="int8") @ kael.tensor([1, 1], dtype="int8")).item() == -56


def test_sums_of_nothing_are_zero():
    product = kael.zeros(2, 0) @ kael.zeros(0, 3)
    assert product.tolist() == [[0, 0, 0], [0, 0, 0]]
    assert (kael.zeros(0) @ kael.zeros(0)).item() == 0
    assert (kael.zeros(0, 2, 3) @ kael.zeros(3, 4)).shape == (0, 2, 4)


@pytest.mark.usefixtures("threads_restored")
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "shapes", [((300, 70), (70, 200)), ((1, 70), (70, 3000)), ((5, 40, 30), (5, 30, 20))]
)
def test_bits_depend_on_neither_threads_nor_layout(dtype, shapes):
    random = np.random.default_rng(3)
    a, b = (random.normal(size=shape) for shape in shapes)
    made = (layouts.contiguous, layouts.transposed, layouts.sliced)
    results = set()
    for threads, first, second in itertools.product([1, 2, 7], made, made):
        kael.set_num_threads(threads)
        results.add((first(a, dtype) @ second(b, dtype)).numpy().tobytes())
    assert len(results) == 1


def test_a_row_of_a_product_has_the_bits_of_the_product_of_the_row():
    random = np.random.default_rng(4)
    a, b = (
        kael.tensor(random.normal(size=(140, 90))).float(),
        kael.tensor(random.normal(size=(90, 60))).float(),
    )
    whole = (a @ b).numpy()
    for row in (0, 127, 128, 139):
        np.testing.assert_array_equal((a[row] @ b).numpy(), whole[row])
    batches = kael.tensor(np.stack([a.numpy(), a.numpy() + 1]))
    np.testing.assert_array_equal((batches @ b)[0].numpy(), whole)
    np.testing.assert_array_equal((batches @ b.expand(2, 90, 60))[0].numpy(), whole)


def test_what_does_not_match_is_shown():
    for a, b, message in (
        ((2, 3), (4, 5), r"the shapes \[2, 3\] and \[4, 5\] do not match: the last dimension of the first "
         r"has 3, the last but one of the second 4, expected equal sizes"),
        ((2, 3), (2,), "the last dimension of the first has 3, the only of the second 2, expected"),
        ((), (2,), r"operands of shape \[\] and \[2\], expected at least one dimension each"),
        ((2, 2, 3), (3, 3, 4), r"matmul: the shapes \[2\] and \[3\] do not broadcast"),
    ):  # fmt: skip
        with pytest.raises(kael.Error, match=message):
            kael.zeros(*a) @ kael.zeros(*b)
    for dtypes in (("float32", "int64"), ("float32", "float64"), ("bool", "bool")):
        x, y = (kael.ones(2, dtype=dtype) for dtype in dtypes)
        with pytest.raises(kael.Error, match="operands of dtype {} and {}".format(*dtypes)):
            x @ y
    for wrong in (1, None, [1.0]):
        with pytest.raises(TypeError):
            kael.zeros(1) @ wrong
