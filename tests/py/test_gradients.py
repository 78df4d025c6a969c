"""The derivative of every operator, against PyTorch's, through views of every layout."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as st_numpy

import kael

# Multiples of 1/16: exact in every float, with ties and zeros among them.
NUMBERS = st.integers(-48, 48).map(lambda n: n / 16)
SHAPES = st_numpy.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)

UNARY = [
    "neg", "abs", "sign", "floor", "ceil", "round", "trunc", "relu", "square", "exp", "expm1", "log", "log1p",
    "sqrt", "rsqrt", "reciprocal", "sin", "cos", "tanh", "sigmoid", "erf", "gelu", "gelu_tanh", "clamp",
    "clamp_min", "clamp_max",
]  # fmt: skip
BINARY = ["add", "sub", "mul", "div", "remainder", "fmod", "pow", "maximum", "minimum", "where"]
REDUCTIONS = ["sum", "prod", "mean", "var", "std", "norm", "logsumexp", "amax", "amin"]
ALONG = ["cumsum", "softmax", "log_softmax"]


def torch():
    return pytest.importorskip("torch", reason="PyTorch, the oracle of this test, is not installed")


def call(library, name, *operands, **options):
    """The operator of kael or of PyTorch."""
    special = {
        "clamp": lambda x: x.clamp(-0.5, 1.25),
        "clamp_min": lambda x: x.clamp(min=0.25),
        "clamp_max": lambda x: x.clamp(max=0.25),
        "where": lambda x, y: library.where(x > 0, x * 2, y * 3),
    }
    if library is not kael:
        functional = library.nn.functional
        special |= {
            "gelu": functional.gelu,
            "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
            "norm": lambda x, p=2, **rest: library.linalg.vector_norm(x, ord=p, **rest),
        }
    else:
        special["gelu_tanh"] = lambda x: kael.gelu(x, approximate="tanh")
    return special.get(name, getattr(library, name, None))(*operands, **options)


# Each makes a tensor of the wanted shape from a leaf, by the same words in both libraries.
LAYOUTS = {
    "contiguous": (lambda shape: shape, lambda x, shape: x),
    "transposed": (lambda shape: shape[::-1], lambda x, shape: x.permute(tuple(range(x.ndim))[::-1])),
    "sliced": (
        lambda shape: (*shape[:-1], 2 * shape[-1]) if shape else (2,),
        lambda x, shape: x[..., 1::2] if shape else x[1],
    ),
    "expanded": (
        lambda shape: (1, *shape[1:]) if shape else (),
        lambda x, shape: x.expand(tuple(shape)) if shape else x,
    ),
}


@st.composite
def leaves(draw, shape):
    layout = draw(st.sampled_from(sorted(LAYOUTS)))
    values = draw(st_numpy.arrays("float64", LAYOUTS[layout][0](shape), elements=NUMBERS))
    return layout, shape, values


def gradients(library, drawn, compute):
    """The gradients of a weighted sum of what ``compute`` makes of the drawn tensors."""
    xs = [
        kael.tensor(values, requires_grad=True)
        if library is kael
        else library.tensor(values, requires_grad=True)
        for _, _, values in drawn
    ]
    result = compute(*(LAYOUTS[layout][1](x, shape) for x, (layout, shape, _) in zip(xs, drawn, strict=True)))
    weights = np.cos(np.arange(math.prod(result.shape), dtype="float64")).reshape(tuple(result.shape))
    (result * library.tensor(weights)).sum().backward()
    return [x.grad for x in xs]


def compare(drawn, compute, tolerance=1e-9):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a variance without enough elements
        expected = gradients(torch(), drawn, lambda *xs: compute(torch(), *xs))
    actual = gradients(kael, drawn, lambda *xs: compute(kael, *xs))
    for ours, theirs in zip(actual, expected, strict=True):
        assert ours.dtype == "float64"
        if theirs is None:  # where it knows that all are 0
            theirs = torch().zeros(ours.shape)
        np.testing.assert_allclose(
            ours.numpy(), theirs.numpy(), rtol=tolerance, atol=tolerance, equal_nan=True
        )


@pytest.mark.parametrize("name", UNARY)
@settings(max_examples=40)
@given(data=st.data())
def test_gradients_of_one_operand_are_those_of_pytorch(name, data):
    compare([data.draw(leaves(data.draw(SHAPES)))], lambda library, x: call(library, name, x))


@pytest.mark.parametrize("name", BINARY)
@settings(max_examples=60)
@given(data=st.data())
def test_gradients_of_two_operands_are_those_of_pytorch(name, data):
    shapes = data.draw(
        st_numpy.mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3)
    ).input_shapes
    drawn = [data.draw(leaves(shape)) for shape in shapes]
    if name in ("remainder", "fmod"):
        drawn[1][2][drawn[1][2] == 0] = 0.75  # NaN everywhere otherwise
    compare(drawn, lambda library, x, y: call(library, name, x, y))


@pytest.mark.parametrize("name", REDUCTIONS)
@settings(max_examples=60)
@given(data=st.data())
def test_gradients_of_reductions_are_those_of_pytorch(name, data):
    shape = data.draw(st_numpy.array_shapes(min_dims=1, max_dims=3, min_side=1, max_side=3))
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    options = {"dim": dim, "keepdim": data.draw(st.booleans())}
    if name == "norm":
        options["p"] = data.draw(st.sampled_from([0, 1, 2, 3, math.inf, -math.inf]))
    if name in ("var", "std"):
        options["correction"] = data.draw(st.sampled_from([0, 1]))
    drawn = data.draw(leaves(shape))
    compare([drawn], lambda library, x: call(library, name, x, **options), tolerance=1e-8)


@pytest.mark.parametrize("name", ALONG)
@settings(max_examples=40)
@given(data=st.data())
def test_gradients_along_a_dimension_are_those_of_pytorch(name, data):
    shape = data.draw(SHAPES)
    dim = data.draw(st.integers(-max(len(shape), 1), max(len(shape), 1) - 1))
    compare([data.draw(leaves(shape))], lambda library, x: call(library, name, x, dim=dim))


# Without PyTorch too. No number here is near one at which a derivative jumps.
POSITIVE = np.random.default_rng(11).permutation(np.linspace(0.31, 2.23, 6)).reshape(2, 3)
SIGNED = POSITIVE * [[1, -1, 1], [-1, 1, -1]]
ONLY_POSITIVE = {"log", "sqrt", "rsqrt", "pow"}


def numbers_for(name):
    return kael.tensor(POSITIVE if name in ONLY_POSITIVE else SIGNED, requires_grad=True)


@pytest.mark.parametrize("name", UNARY)
def test_gradients_of_one_operand_are_those_of_differences(name):
    x = kael.tensor(POSITIVE / 3, requires_grad=True) if name == "log1p" else numbers_for(name)
    assert kael.gradcheck(lambda x: call(kael, name, x), x)


@pytest.mark.parametrize("name", BINARY)
def test_gradients_of_two_operands_are_those_of_differences(name):
    other = kael.tensor(np.array([0.77, 1.31, 0.59]), requires_grad=True)
    assert kael.gradcheck(lambda x, y: call(kael, name, x, y), (numbers_for(name), other))


@pytest.mark.parametrize("options", [{"dim": 0}, {"dim": -1, "keepdim": True}], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_gradients_of_reductions_are_those_of_differences(name, options):
    assert kael.gradcheck(lambda x: call(kael, name, x, **options), numbers_for(name), variants=False)


@pytest.mark.parametrize("name", ALONG)
def test_gradients_along_a_dimension_are_those_of_differences(name):
    assert kael.gradcheck(lambda x: call(kael, name, x, dim=-1), numbers_for(name))


@settings(max_examples=60)
@given(data=st.data())
def test_second_derivatives_are_those_of_pytorch(data):
    name = data.draw(
        st.sampled_from(["exp", "tanh", "sigmoid", "gelu", "gelu_tanh", "sin", "softmax", "var"])
    )
    values = data.draw(st_numpy.arrays("float64", (2, 3), elements=NUMBERS))

    def second(library):
        x = library.tensor(values, requires_grad=True)
        options = {"dim": 1} if name in ("softmax", "var") else {}
        y = call(library, name, x, **options)
        grad = kael.grad if library is kael else library.autograd.grad
        (first,) = grad((y * y).sum(), x, create_graph=True)
        (first * first).sum().backward()
        return x.grad.numpy()

    np.testing.assert_allclose(second(kael), second(torch()), rtol=1e-7, atol=1e-7)


@settings(max_examples=60)
@given(data=st.data())
def test_gradients_through_in_place_writes_are_those_of_pytorch(data):
    values = data.draw(st_numpy.arrays("float64", (3, 2), elements=NUMBERS))
    other = data.draw(st_numpy.arrays("float64", (2,), elements=NUMBERS))
    steps = data.draw(
        st.lists(
            st.tuples(
                st.sampled_from(["row", "column", "whole"]), st.sampled_from(["mul_", "add_", "copy_"])
            ),
            min_size=1,
            max_size=4,
        )
    )

    def run(library):
        x = library.tensor(values, requires_grad=True)
        w = library.tensor(other, requires_grad=True)
        y = x * 1.0
        views = {"row": y[1], "column": y.permute((1, 0))[0], "whole": y}
        for where, operation in steps:
            operand = w[0] if where == "column" else w
            if library is not kael and operation == "mul_":
                views[where].copy_(views[where].clone() * operand)  # PyTorch refuses what it had to save
            else:
                getattr(views[where], operation)(operand)
        (y * y + views["row"].sum() * views["column"].sum()).sum().backward()
        return x.grad.numpy(), w.grad.numpy()

    for ours, theirs in zip(run(kael), run(torch()), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-9)


# Parts of a tensor [2, 2], which is written while they are read.
OVERLAPS = {
    "itself": lambda y: y,
    "a row": lambda y: y[0],
    "a column": lambda y: y[:, :1],
    "an element": lambda y: y[1, 0],
    "transposed": lambda y: y.permute((1, 0)),
}


@pytest.mark.parametrize("part", OVERLAPS)
@pytest.mark.parametrize(
    "name", ["add_", "sub_", "mul_", "div_", "remainder_", "fmod_", "pow_", "maximum_", "minimum_"]
)
def test_an_operand_that_is_written_over_counts_as_it_was(name, part):
    x = kael.tensor(np.array([[1.3, 0.7], [1.9, 2.6]]), requires_grad=True)

    def write(x):
        y = x * 1.0
        return getattr(y, name)(OVERLAPS[part](y))

    assert kael.gradcheck(write, x, variants=False)


@pytest.mark.parametrize("part", OVERLAPS)
def test_bounds_that_are_written_over_count_as_they_were(part):
    x = kael.tensor(np.array([[1.3, 0.7], [1.9, 2.6]]), requires_grad=True)

    def write(x):
        y = x * 1.0
        return y.clamp_(OVERLAPS[part](y) * 0.5, OVERLAPS[part](y))

    assert kael.gradcheck(write, x, variants=False)


BASES = {
    "row-major": lambda: kael.zeros(2, 3, dtype="float64"),
    "column-major": lambda: kael.zeros(3, 2, dtype="float64").permute((1, 0)).detach(),
    "with gaps": lambda: kael.zeros(4, 6, dtype="float64")[1::2, 1::2].detach(),
}
WRITTEN_PARTS = {
    "row": lambda y: y[1],
    "column": lambda y: y[:, 1],
    "every other": lambda y: y[:, ::2],
    "diagonal": lambda y: kael.diagonal(y),
    "transposed": lambda y: y.permute((1, 0)),
    "joined": lambda y: y.unsqueeze(0).reshape((1, 2, 3)).permute((2, 0, 1))[1:],
}


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("written", WRITTEN_PARTS)
@pytest.mark.parametrize("read", WRITTEN_PARTS)
def test_gradients_through_written_views_are_those_of_differences(base, written, read):
    x = kael.tensor(np.array([[1.3, 0.7, 0.4], [1.9, 2.6, 0.2]]), requires_grad=True)
    scale = kael.tensor(np.array(1.7), requires_grad=True)

    def write(x, scale):
        y = BASES[base]()
        view = WRITTEN_PARTS[read](y)
        y.add_(x)
        WRITTEN_PARTS[written](y).mul_(scale)
        return view * 1.0, y.permute((1, 0)) * y.permute((1, 0))

    assert kael.gradcheck(write, (x, scale), variants=False)


@pytest.mark.parametrize(
    ("compute", "start", "expected"),
    [
        (lambda x: x.abs(), [0.0], [0.0]),
        (lambda x: x.relu(), [0.0], [0.0]),
        (lambda x: x.relu(), [math.nan], [1.0]),
        (lambda x: x.sqrt(), [0.0], [math.inf]),
        (lambda x: x**0.0, [0.0], [0.0]),
        (lambda x: x.norm(), [0.0, 0.0], [0.0, 0.0]),
        (lambda x: x.clamp(0, 1), [0.0, 1.0], [1.0, 1.0]),
        (lambda x: x.amax(), [2.0, 2.0, 1.0], [0.5, 0.5, 0.0]),
        (lambda x: x.prod(), [0.0, 2.0, 3.0], [6.0, 0.0, 0.0]),
        (lambda x: x.prod(), [0.0, 0.0, 3.0], [0.0, 0.0, 0.0]),
        (lambda x: kael.maximum(x, 1.0), [1.0], [0.5]),
        (lambda x: x.logsumexp(), [-math.inf, -math.inf], [0.0, 0.0]),  # KB050
        (lambda x: kael.where(x > 0, x.log(), 0.0), [0.0], [math.nan]),
    ],
)
def test_gradients_at_corners_are_as_the_table_says(compute, start, expected):
    x = kael.tensor(start, requires_grad=True)
    compute(x).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), expected)


@pytest.mark.parametrize(
    "compute",
    [
        lambda x: x.relu(),
        lambda x: x.clamp(0, 1),
        lambda x: x.clamp(min=0),
        lambda x: -(-x).clamp(max=0),
        lambda x: kael.maximum(x, 0.0),
        lambda x: kael.where(x > 0, x, 0.0),
    ],
    ids=["relu", "clamp", "clamp_min", "clamp_max", "maximum", "where"],
)
def test_an_infinite_gradient_ends_where_nothing_was_taken(compute):
    """Multiplied by 0 it would be NaN."""
    x = kael.tensor([-1.0, 0.5], requires_grad=True)
    compute(x).backward(kael.tensor([math.inf, math.inf]))
    assert x.grad.tolist() == [0.0, math.inf]


def test_the_mean_along_a_dimension_of_a_vector():  # KB038
    x = kael.tensor([1.0] * 5, requires_grad=True)
    (x**2).mean(0).backward()
    np.testing.assert_allclose(x.grad.numpy(), [0.4] * 5)


def test_an_expanded_gradient_is_read_by_its_strides():  # KB040, KB041
    x = kael.tensor([[1.0, 2.0]], requires_grad=True)
    y = x.expand(3, 2).exp()
    y.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 3 * np.exp([[1.0, 2.0]]), rtol=1e-6)
