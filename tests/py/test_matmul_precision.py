"""Products of float32 matrices in bfloat16, where the processor multiplies it."""

from __future__ import annotations

import itertools

import layouts
import numpy as np
import pytest

import kael

needs_instruction = pytest.mark.skipif(
    not kael.build_info().startswith("x86-64-v4-bf16"),
    reason="this processor, or the instruction set of KAEL_ISA, lacks instructions for bfloat16: medium "
    "is highest there",
)


@pytest.fixture(autouse=True)
def medium():
    kael.set_float32_matmul_precision("medium")
    yield
    kael.set_float32_matmul_precision("highest")


def rounded(values: np.ndarray) -> np.ndarray:
    """To the nearest bfloat16."""
    return kael.tensor(values).float().to("bfloat16").to("float32").numpy().astype(np.float64)


# Around the edges of rows, depths, panels and of the blocks of the depth.
SHAPES = [
    (16, 32, 64),
    (17, 33, 65),
    (40, 70, 200),
    (33, 4096, 70),
    (20, 4097, 64),
    (16, 9001, 130),
]


@needs_instruction
@pytest.mark.parametrize("shape", SHAPES)
def test_products_are_those_of_the_rounded_operands(shape):
    m, k, n = shape
    random = np.random.default_rng(m)
    a, b = random.normal(size=(m, k)), random.normal(size=(k, n))
    result = (kael.tensor(a).float() @ kael.tensor(b).float()).numpy()
    near_a, near_b = rounded(a), rounded(b)
    bound = (k + 4) * 2.0**-24 * (np.abs(near_a) @ np.abs(near_b))
    assert (np.abs(result - near_a @ near_b) <= bound).all()
    assert (result != (a @ b).astype(np.float32)).any()


@needs_instruction
@pytest.mark.usefixtures("threads_restored")
@pytest.mark.parametrize("shape", SHAPES)
def test_bits_depend_on_neither_threads_nor_layout(shape):
    m, k, n = shape
    random = np.random.default_rng(3)
    a, b = random.normal(size=(m, k)), random.normal(size=(k, n))
    made = (layouts.contiguous, layouts.transposed, layouts.sliced)
    results = set()
    for threads, first, second in itertools.product([1, 2, 7], made, made):
        kael.set_num_threads(threads)
        results.add((first(a, "float32") @ second(b, "float32")).numpy().tobytes())
    assert len(results) == 1


@pytest.mark.parametrize("shapes", [((3, 20), (20, 70)), ((40, 8), (8, 70)), ((4, 40, 40), (4, 40, 70))])
def test_small_products_and_batches_stay_float32(shapes):
    random = np.random.default_rng(5)
    a, b = (kael.tensor(random.normal(size=shape)).float() for shape in shapes)
    medium = (a @ b).numpy()
    kael.set_float32_matmul_precision("highest")
    np.testing.assert_array_equal(medium, (a @ b).numpy())


def test_other_dtypes_are_multiplied_as_ever():
    random = np.random.default_rng(6)
    for dtype in ("float64", "bfloat16", "float16", "int64"):
        a, b = (kael.tensor(random.normal(size=(64, 64)) * 4).to(dtype) for _ in range(2))
        kael.set_float32_matmul_precision("medium")
        medium = (a @ b).tolist()
        kael.set_float32_matmul_precision("highest")
        assert medium == (a @ b).tolist()


def test_what_is_not_finite_stays_so():
    a = kael.ones((32, 64))
    b = kael.ones((64, 64))
    a[3, 5] = float("inf")
    b[5, 7] = float("nan")
    result = (a @ b).numpy()
    assert np.isposinf(np.delete(result[3], 7)).all()
    assert np.isnan(result[:, 7]).all()
    np.testing.assert_array_equal(np.delete(np.delete(result, 3, axis=0), 7, axis=1), 64)


def test_the_precision_is_what_was_set():
    assert kael.get_float32_matmul_precision() == "medium"
    kael.set_float32_matmul_precision("highest")
    assert kael.get_float32_matmul_precision() == "highest"
    with pytest.raises(kael.Error, match=r"'high'.*'highest'.*'medium'"):
        kael.set_float32_matmul_precision("high")
    assert kael.get_float32_matmul_precision() == "highest"


def test_gradients_are_near_those_of_float32():
    def gradients() -> list[np.ndarray]:
        kael.manual_seed(2)
        model = kael.GPT(vocab_size=200, max_positions=64, layers=2, heads=2, dimension=64)
        parameters = [parameter.requires_grad_() for parameter in model.parameters()]
        ids = np.random.default_rng(1).integers(0, 200, (2, 33))
        logits = model(np.ascontiguousarray(ids[:, :-1]))
        targets = kael.tensor(np.ascontiguousarray(ids[:, 1:]).reshape(-1))
        kael.nn.functional.cross_entropy(logits.reshape(-1, 200), targets).backward()
        return [parameter.grad.numpy() for parameter in parameters]

    near = gradients()
    kael.set_float32_matmul_precision("highest")
    for value, exact in zip(near, gradients(), strict=True):
        assert np.linalg.norm(value - exact) <= 0.02 * np.linalg.norm(exact)
