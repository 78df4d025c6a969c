"""kael.einsum against PyTorch: equations, layouts, gradients, and what it refuses."""

from __future__ import annotations

import layouts
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pytorch import torch

import kael
from kael._apply import apply

LETTERS = "aBcdZ"


@st.composite
def equations(draw):
    """An equation, and shapes of operands that fit it: some dimensions 1, some 0, some that "..." is for."""
    sizes = {letter: draw(st.integers(0, 3)) for letter in LETTERS}
    dots = draw(st.lists(st.integers(0, 3), max_size=2))
    terms, shapes = [], []
    for _ in range(draw(st.integers(1, 3))):
        letters = draw(st.lists(st.sampled_from(LETTERS), max_size=3))
        # A letter twice in an operand has one size there.
        own = {letter: draw(st.sampled_from([1, sizes[letter]])) for letter in letters}
        shape = [own[letter] for letter in letters]
        if draw(st.booleans()):
            place = draw(st.integers(0, len(letters)))
            count = draw(st.integers(0, len(dots)))
            shape[place:place] = [draw(st.sampled_from([1, size])) for size in dots[len(dots) - count :]]
            letters.insert(place, "...")
        terms.append(draw(st.sampled_from(["", " "])).join(letters))
        shapes.append(tuple(shape))
    equation = ",".join(terms)
    if draw(st.booleans()):
        used = sorted({letter for letter in equation if letter in LETTERS})
        result = draw(st.permutations(used))[: draw(st.integers(0, len(used)))]
        if "..." in equation:
            result.insert(draw(st.integers(0, len(result))), "...")
        equation += "->" + "".join(result)
    return equation, shapes


def whole_numbers(dtype):
    """So small that every sum is exact, whatever its order."""
    return st.integers(0, 2) if dtype == "uint8" else st.integers(-2, 2)


@st.composite
def operands(draw, shapes, dtype):
    made = []
    for shape in shapes:
        count = int(np.prod(shape))
        values = draw(st.lists(whole_numbers(dtype), min_size=count, max_size=count))
        array = np.array(values, "float32" if "float" in dtype else dtype).reshape(shape)
        made.append(draw(st.sampled_from(layouts.LAYOUTS))(array, dtype))
    return made


@settings(max_examples=250)
@given(data=st.data())
def test_every_equation_means_what_it_means_in_pytorch(data):
    equation, shapes = data.draw(equations())
    dtype = data.draw(st.sampled_from(["float32", "float64", "float16", "int64", "int32", "uint8"]))
    tensors = data.draw(operands(shapes, dtype))
    expected = torch.einsum(equation, *(layouts.torch_of(tensor) for tensor in tensors))
    # There a sum of one operand of small integers is int64.
    layouts.assert_same(kael.einsum(equation, *tensors), expected.to(getattr(torch, dtype)))


@settings(max_examples=100)
@given(data=st.data())
def test_gradients_are_those_of_pytorch(data):
    equation, shapes = data.draw(equations())
    tensors = data.draw(operands(shapes, "float64"))
    ours = [tensor.detach().requires_grad_() for tensor in tensors]
    theirs = [layouts.torch_of(tensor).requires_grad_() for tensor in tensors]
    for result in (kael.einsum(equation, ours), torch.einsum(equation, theirs)):
        (result * result).sum().backward()
    for mine, other in zip(ours, theirs, strict=True):
        layouts.assert_same(mine.grad, other.grad)


def test_a_transposition_is_a_view():
    x = kael.tensor(np.arange(6.0).reshape(2, 3))
    turned = kael.einsum("ij->ji", x)
    turned[0, 1] = 9
    assert x[1, 0].item() == 9
    assert kael.einsum("ii", kael.eye(3)).item() == 3


def test_what_is_wrong_is_named():
    x = kael.tensor(np.zeros((2, 3)))
    for equation, given_operands, message in (
        ("i?", [x], r'einsum: "\?" at position 1 of the equation "i\?", expected letters'),
        ("i.j", [x], r'"\." at position 1'),
        ("...i...", [x], r'"\." at position 4 of the equation'),
        ("ij->i->j", [x], '"-" at position 5'),
        ("ij->i,j", [x], '"," at position 5'),
        ("iä", [x], r'"\\xc3" at position 1'),
        ("ij,jk", [x], 'einsum: 1 operands for the equation "ij,jk", expected 2'),
        ("ij", [x, x], 'einsum: 2 operands for the equation "ij", expected 1'),
        ("ijk", [x], r'operand 1 of the equation "ijk" has shape \[2, 3\], expected 3 dimensions'),
        ("ij,...ijk", [x, x], 'operand 2 of .* has shape .*, expected 3 or more dimensions'),
        ("ii", [x], "the subscript 'i' has the sizes 2 and 3 in operand 1, expected equal ones"),
        ("ij,jk", [x, x], "the subscript 'j' has size 3 in operand 1 and 2 in operand 2, expected equal"),
        ("...i,...i", [x, x[:1].expand(4, 3)], r"the dimension -1 of '\.\.\.' has size 2 in operand 1 and 4"),
        ("ij->k", [x], "the subscript 'k' of the result is in no operand of .*, expected one of theirs"),
        ("ij->ii", [x], "the subscript 'i' is twice in the result of .*, expected each once at most"),
        ("ij,ij", [x, x.float()], "operands of dtype float64 and float32, expected numbers of one dtype"),
        ("ij", [x > 0], "operands of dtype bool and bool, expected numbers"),
    ):  # fmt: skip
        with pytest.raises(kael.Error, match=message):
            kael.einsum(equation, *given_operands)
    with pytest.raises(kael.Error, match="einsum: argument 1 is no text, expected its bytes"):
        apply("einsum", [256], [x])
    for wrong in ((3, x), ("i", 3), ("i",), ("i", [])):
        with pytest.raises(TypeError, match="einsum: the "):
            kael.einsum(*wrong)
