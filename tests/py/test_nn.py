"""Modules and layers: against PyTorch's with the same weights, and what they promise by themselves."""

from __future__ import annotations

import math

import numpy as np
import pytest

import kael
from kael import nn


def torch():
    return pytest.importorskip("torch", reason="PyTorch, the oracle of this test, is not installed")


def values(*shape, seed=1):
    return np.random.default_rng(seed).normal(size=shape).astype("float32")


def compare(ours, theirs, *inputs, tolerance=1e-5):
    """Outputs, and gradients of a weighted sum of them, of two modules with equal weights."""
    states = {name: torch().tensor(tensor.numpy().copy()) for name, tensor in ours.state_dict().items()}
    theirs.load_state_dict(states)
    results = []
    for library, module in ((kael, ours), (torch(), theirs)):
        tensors = [library.tensor(value) for value in inputs]
        for tensor in tensors:
            if "float" in str(tensor.dtype):
                tensor.requires_grad_(True)
        output = module(*tensors)
        weights = library.tensor(
            np.cos(np.arange(math.prod(output.shape), dtype="float32")).reshape(tuple(output.shape))
        )
        (output * weights).sum().backward()
        gradients = {name: parameter.grad for name, parameter in module.named_parameters()}
        results.append((output, gradients, [tensor.grad for tensor in tensors]))
    (output, gradients, inner), (expected, expected_gradients, expected_inner) = results
    np.testing.assert_allclose(output.detach().numpy(), expected.detach().numpy(), rtol=1e-4, atol=tolerance)
    assert gradients.keys() == expected_gradients.keys()
    for name, gradient in gradients.items():
        np.testing.assert_allclose(
            gradient.numpy(), expected_gradients[name].numpy(), rtol=1e-4, atol=10 * tolerance, err_msg=name
        )
    for gradient, other in zip(inner, expected_inner, strict=True):
        if other is not None:
            np.testing.assert_allclose(gradient.numpy(), other.numpy(), rtol=1e-4, atol=10 * tolerance)


def test_layers_are_those_of_pytorch():
    reference = torch().nn
    compare(nn.Linear(4, 3), reference.Linear(4, 3), values(5, 4))
    compare(nn.Linear(4, 3, bias=False), reference.Linear(4, 3, bias=False), values(2, 5, 4))
    compare(nn.LayerNorm(6), reference.LayerNorm(6), values(2, 3, 6))
    compare(nn.Embedding(7, 3), reference.Embedding(7, 3), np.array([[0, 6, 6], [1, 2, 0]]))
    for ours, theirs in (
        (nn.GELU(), reference.GELU()),
        (nn.GELU("tanh"), reference.GELU("tanh")),
        (nn.ReLU(), reference.ReLU()),
        (nn.Tanh(), reference.Tanh()),
        (nn.Sigmoid(), reference.Sigmoid()),
    ):
        compare(ours, theirs, values(3, 4))


def test_a_network_is_that_of_pytorch():
    ours = nn.Sequential(nn.Linear(5, 8), nn.GELU(), nn.LayerNorm(8), nn.Linear(8, 2))
    r = torch().nn
    compare(ours, r.Sequential(r.Linear(5, 8), r.GELU(), r.LayerNorm(8), r.Linear(8, 2)), values(4, 5))


def test_attention_is_that_of_pytorch():
    ours = nn.CausalSelfAttention(8, 2)

    class Reference(torch().nn.Module):
        def __init__(self):
            super().__init__()
            for name, wide in (("c_attn", 24), ("c_proj", 8)):
                part = torch().nn.Module()
                part.weight = torch().nn.Parameter(torch().zeros(8, wide))
                part.bias = torch().nn.Parameter(torch().zeros(wide))
                setattr(self, name, part)

        def forward(self, x):
            qkv = x @ self.c_attn.weight + self.c_attn.bias
            q, k, v = (part.reshape(2, 5, 2, 4).transpose(1, 2) for part in qkv.chunk(3, -1))
            mixed = torch().nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            return mixed.transpose(1, 2).reshape(2, 5, 8) @ self.c_proj.weight + self.c_proj.bias

    compare(ours, Reference(), values(2, 5, 8))


def test_losses_are_those_of_pytorch():
    functional = torch().nn.functional
    logits, targets = values(6, 4), np.array([0, 3, -100, 1, 2, 2])
    for ours, theirs in (
        (kael.cross_entropy, functional.cross_entropy),
        (
            lambda x, t: nn.functional.nll_loss(x.log_softmax(1), t),
            lambda x, t: functional.nll_loss(x.log_softmax(1), t),
        ),
    ):
        x, y = kael.tensor(logits, requires_grad=True), torch().tensor(logits, requires_grad=True)
        loss, expected = ours(x, kael.tensor(targets)), theirs(y, torch().tensor(targets))
        loss.backward()
        expected.backward()
        assert loss.item() == pytest.approx(expected.item(), rel=1e-6)
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), atol=1e-6)


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
def test_losses_reduce_and_weigh_as_those_of_pytorch(reduction):
    functional = torch().nn.functional
    logits, targets = values(2, 4, 3), np.array([[0, 3, -1], [1, 2, 2]])
    weight, shares = np.abs(values(4, seed=2)), np.abs(values(2, 4, 3, seed=3))
    for ours, theirs, target, options in (
        (kael.cross_entropy, functional.cross_entropy, targets, {"ignore_index": -1}),
        (nn.functional.nll_loss, functional.nll_loss, targets, {"ignore_index": -1}),
        (kael.cross_entropy, functional.cross_entropy, shares, {}),
    ):
        x, y = kael.tensor(logits, requires_grad=True), torch().tensor(logits, requires_grad=True)
        loss = ours(x, kael.tensor(target), weight=kael.tensor(weight), reduction=reduction, **options)
        expected = theirs(
            y, torch().tensor(target), weight=torch().tensor(weight), reduction=reduction, **options
        )
        loss.sum().backward()
        expected.sum().backward()
        np.testing.assert_allclose(loss.detach().numpy(), expected.detach().numpy(), rtol=1e-5)
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), atol=1e-6)


def test_a_reduction_is_one_of_three_words():
    x = kael.zeros(2, 2)
    for loss in (kael.cross_entropy, nn.functional.nll_loss, nn.functional.mse_loss):
        with pytest.raises(kael.Error, match="reduction is 'max', expected 'none' or 'mean' or 'sum'"):
            loss(x, x, reduction="max")


def test_a_mask_says_where_attention_may_look():
    functional = torch().nn.functional.scaled_dot_product_attention
    q, k, v = values(2, 3, 4), values(2, 5, 4, seed=2), values(2, 5, 6, seed=3)
    added, allowed = values(3, 5, seed=4), np.tri(3, 5, dtype=bool)
    for mask, scale in ((added, None), (allowed, 0.3)):
        ours = nn.functional.scaled_dot_product_attention(
            *map(kael.tensor, (q, k, v)), kael.tensor(mask), scale=scale
        )
        theirs = functional(*map(torch().tensor, (q, k, v)), torch().tensor(mask), scale=scale)
        np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-6)
    with pytest.raises(kael.Error, match="attn_mask and is_causal, expected one of them"):
        nn.functional.scaled_dot_product_attention(
            *map(kael.tensor, (q, k, v)), kael.tensor(added), is_causal=True
        )


def test_a_layer_norm_takes_the_shape_that_it_is_over():
    x, weight = values(2, 3, 4), values(3, 4, seed=2)
    ours = nn.functional.layer_norm(kael.tensor(x), (3, 4), kael.tensor(weight), eps=0.1)
    theirs = torch().nn.functional.layer_norm(torch().tensor(x), (3, 4), torch().tensor(weight), eps=0.1)
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), atol=1e-6)
    with pytest.raises(kael.Error, match=r"layer_norm: the normalized shape \[3\] for a tensor of shape"):
        nn.functional.layer_norm(kael.tensor(x), 3)


# ---- Modules


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 2)
        self.second = nn.Linear(2, 3)
        self.second.weight = self.first.weight  # shared
        self.scale = nn.Parameter(kael.tensor([2.0]))
        self.register_buffer("seen", kael.tensor([0.0]))
        self.constant = kael.tensor([5.0])


def test_parameters_have_paths_and_shared_ones_come_once():
    module = Small()
    assert [name for name, _ in module.named_parameters()] == [
        "scale",
        "first.weight",
        "first.bias",
        "second.bias",
    ]
    assert set(module.state_dict()) == {
        "scale", "seen", "first.weight", "first.bias", "second.weight", "second.bias",
    }  # fmt: skip
    assert all(not tensor.requires_grad for tensor in module.state_dict().values())


def test_an_attribute_can_change_its_kind():
    module = Small()
    module.scale = None
    assert module.scale is None
    assert "scale" not in dict(module.named_parameters())
    module.scale = nn.Linear(1, 1)
    assert "scale.weight" in dict(module.named_parameters())
    del module.scale
    with pytest.raises(AttributeError, match="Small has no attribute 'scale'"):
        _ = module.scale


def test_a_module_that_is_not_initialized_says_so():
    class Hasty(nn.Module):
        def __init__(self):
            self.layer = nn.Linear(1, 1)

    with pytest.raises(
        kael.Error, match=r"Hasty.layer is assigned, expected a call of super\(\).__init__\(\) before"
    ):
        Hasty()
    with pytest.raises(kael.Error, match=r"Module has no forward\(\), expected its class to define one"):
        nn.Module()(1)


def test_state_goes_through_a_file(tmp_path):
    first, second = nn.Linear(3, 2), nn.Linear(3, 2)
    kael.save_safetensors(tmp_path / "state.safetensors", first.state_dict())
    second.load_state_dict(kael.load_safetensors(tmp_path / "state.safetensors"))
    np.testing.assert_array_equal(first.weight.detach().numpy(), second.weight.detach().numpy())
    assert second.weight.requires_grad


def test_a_state_that_does_not_fit_changes_nothing():
    module = nn.Linear(3, 2)
    before = module.weight.tolist()
    state = {"weight": kael.zeros(2, 3), "bias": kael.zeros(3)}
    with pytest.raises(kael.Error, match=r"the state of 'bias' has shape \[3\], expected \[2\]"):
        module.load_state_dict(state)
    with pytest.raises(kael.Error, match=r"missing \['bias'\], surplus \['extra'\]"):
        module.load_state_dict({"weight": kael.zeros(2, 3), "extra": kael.zeros(1)})
    assert module.weight.tolist() == before
    module.load_state_dict({"weight": kael.zeros(2, 3)}, strict=False)
    assert module.weight.tolist() == [[0.0] * 3] * 2


def test_a_state_for_read_only_memory_changes_nothing(tmp_path):
    kael.save_safetensors(tmp_path / "bias", {"bias": kael.zeros(2)})
    module = nn.Linear(3, 2)
    module.bias = nn.Parameter(kael.load_safetensors(tmp_path / "bias", mode="mapped")["bias"])
    before = module.weight.tolist()
    with pytest.raises(kael.Error, match="the memory of 'bias' is read-only, expected memory that may be"):
        module.load_state_dict({"weight": kael.zeros(2, 3), "bias": kael.ones(2)})
    assert module.weight.tolist() == before


def test_a_frozen_module_stays_so_in_another_dtype():
    module = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    next(module.children()).requires_grad_(False)
    module.to("float64")
    assert [parameter.requires_grad for parameter in module.parameters()] == [False, False, True, True]
    assert {parameter.dtype for parameter in module.parameters()} == {"float64"}


def test_a_module_has_no_parameters_of_integers():
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("scale", kael.ones(1))
            self.inner = nn.Linear(2, 3)

    module = Scaled()
    with pytest.raises(kael.Error, match="dtype is 'int64', expected "):
        module.to("int64")
    assert module.scale.dtype == "float32"


def test_a_module_can_be_frozen_and_thawed():
    module = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    assert module.requires_grad_(False) is module
    assert not module(kael.ones(1, 2)).requires_grad
    assert [parameter.requires_grad for parameter in module.parameters()] == [False] * 4
    module.requires_grad_()
    assert [parameter.requires_grad for parameter in module.parameters()] == [True] * 4


def test_wrong_parts_of_a_module_are_named():
    with pytest.raises(TypeError, match=r"Sequential: module 1 must be a kael\.nn\.Module, not int"):
        nn.Sequential(nn.ReLU(), 3)
    with pytest.raises(
        kael.Error, match="CausalSelfAttention: dimension 5 is not a multiple of heads 2, expected one"
    ):
        nn.CausalSelfAttention(5, 2)
    with pytest.raises(TypeError, match=r"a parameter must be a kael\.Tensor, not list"):
        nn.Parameter([1.0])
    with pytest.raises(TypeError, match=r"buffer 'mask' must be a kael\.Tensor, not list"):
        nn.Module().register_buffer("mask", [1.0])


def test_dropout_is_for_training_only_and_follows_the_seed():
    module = nn.Sequential(nn.Dropout(0.25))
    x = kael.ones(4000)
    kael.manual_seed(7)
    first = module(x).tolist()
    kael.manual_seed(7)
    assert module(x).tolist() == first
    assert sorted(set(first)) == pytest.approx([0.0, 4 / 3])
    assert 0.2 < first.count(0.0) / len(first) < 0.3
    assert module.eval()(x).tolist() == x.tolist()
    assert not module[0].training
    with pytest.raises(kael.Error, match=r"p is 1\.5, expected 0 to 1"):
        nn.Dropout(1.5)
    with pytest.raises(kael.Error, match=r"dropout: p is -0\.5, expected 0 to 1"):
        nn.functional.dropout(x, -0.5)


def test_the_gradient_of_dropout_is_its_mask():
    x = kael.ones(100).requires_grad_()
    y = nn.functional.dropout(x, 0.5)
    y.sum().backward()
    assert x.grad.tolist() == y.tolist()


def test_to_another_dtype_keeps_what_is_shared():
    module = Small().to("float64")
    assert {tensor.dtype for tensor in module.state_dict().values()} == {"float64"}
    assert module.first.weight is module.second.weight
    assert module.scale.requires_grad
    assert not module.seen.requires_grad


def test_a_module_shows_its_structure():
    text = repr(nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.ReLU(), nn.Dropout(0.1))))
    assert text == (
        "Sequential(\n"
        "  (0): Linear(2, 3, bias=True)\n"
        "  (1): Sequential(\n"
        "    (0): ReLU()\n"
        "    (1): Dropout(p=0.1)\n"
        "  )\n"
        ")"
    )


def test_a_network_learns_xor():
    kael.manual_seed(3)
    model = nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2))
    optimizer = kael.optim.AdamW(model.parameters(), lr=0.05)
    x = kael.tensor([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    y = kael.tensor([0, 1, 1, 0])
    for _ in range(120):
        optimizer.zero_grad()
        kael.cross_entropy(model(x), y).backward()
        optimizer.step()
    assert model(x).argmax(1).tolist() == [0, 1, 1, 0]
