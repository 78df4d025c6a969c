"""Optimizers against PyTorch's, closed forms and recorded training."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import kael

CHECKPOINTS = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "checkpoints"


def pair(dtype="float64"):
    """Equal parameters in kael and in PyTorch."""
    torch = pytest.importorskip("torch", reason="PyTorch, the oracle of this test, is not installed")
    values = np.random.default_rng(3).normal(size=(5, 4)).astype(dtype)
    return kael.tensor(values, requires_grad=True), torch.tensor(values, requires_grad=True), torch


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("SGD", {"lr": 0.1}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.05}),
        ("Adam", {"lr": 0.02}),
        ("Adam", {"lr": 0.02, "betas": (0.8, 0.95), "eps": 1e-6, "weight_decay": 0.1}),
        ("AdamW", {"lr": 0.02}),
        ("AdamW", {"lr": 0.02, "betas": (0.8, 0.95), "weight_decay": 0.3}),
    ],
)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-12), ("float32", 2e-6)])
def test_steps_are_those_of_pytorch(name, options, dtype, tolerance):
    ours, theirs, torch = pair(dtype)
    optimizer = getattr(kael.optim, name)([ours], **options)
    reference = getattr(torch.optim, name)([theirs], **options)
    for _ in range(7):
        for x, steps in ((ours, optimizer), (theirs, reference)):
            steps.zero_grad()
            (x.sin() * x * x).sum().backward()
            steps.step()
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=tolerance, atol=tolerance)


def test_groups_have_options_of_their_own():
    slow, fast = (kael.tensor([1.0], requires_grad=True) for _ in range(2))
    optimizer = kael.optim.SGD([{"params": [slow]}, {"params": [fast], "lr": 0.5}], lr=0.25)
    (slow + fast).sum().backward()
    optimizer.step()
    assert (slow.item(), fast.item()) == (0.75, 0.5)
    assert list(map(id, optimizer.parameters())) == [id(slow), id(fast)]
    rest = "momentum 0.0, weight_decay 0.0"
    assert repr(optimizer) == (
        f"<kael.optim.SGD of 1 parameters with lr 0.25, {rest}; 1 parameters with lr 0.5, {rest}>"
    )


def test_a_parameter_without_a_gradient_stays():
    x, y = (kael.tensor([1.0], requires_grad=True) for _ in range(2))
    optimizer = kael.optim.AdamW([x, y], lr=0.1, weight_decay=0.5)
    x.sum().backward()
    optimizer.step()
    assert y.item() == 1.0
    assert x.item() < 1.0


def test_going_on_from_a_state_is_going_on():
    def run(steps, interrupt_at=None):
        x = kael.tensor(np.linspace(-1, 1, 50), requires_grad=True)
        optimizer = kael.optim.AdamW([x], lr=0.05)
        for step in range(steps):
            if step == interrupt_at:
                state = optimizer.state_dict()
                optimizer = kael.optim.AdamW([x], lr=9.0)
                optimizer.load_state_dict(state)
            optimizer.zero_grad()
            (x * x * x).sum().backward()
            optimizer.step()
        return x.detach().numpy().tobytes()

    assert run(6) == run(6, interrupt_at=3)


def test_a_state_keeps_its_steps_when_an_optimizer_goes_on_from_it():
    x = kael.tensor([1.0, 2.0], requires_grad=True)
    first, second = kael.optim.Adam([x]), kael.optim.Adam([x])
    x.sum().backward()
    first.step()
    state = first.state_dict()
    second.load_state_dict(state)
    first.step()
    second.step()
    assert [optimizer.state[0]["step"] for optimizer in (first, second)] == [2, 2]
    assert state["state"][0]["step"] == 1


def test_a_state_of_other_parameters_is_refused():
    x = kael.tensor([1.0, 2.0], requires_grad=True)
    optimizer = kael.optim.Adam([x])
    x.sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    with pytest.raises(kael.Error, match="the state is of 1 groups and 1 parameters, expected 1 and 2"):
        kael.optim.Adam([x, kael.tensor([1.0])]).load_state_dict(state)
    with pytest.raises(
        kael.Error, match=r"'exp_avg' of parameter 0 is float32 \[2\], expected float32 \[3\]"
    ):
        kael.optim.Adam([kael.tensor([1.0, 2.0, 3.0])]).load_state_dict(state)
    state["state"][0]["exp_avg"] = [0.0, 0.0]
    with pytest.raises(TypeError, match=r"'exp_avg' of parameter 0 must be a kael\.Tensor, not list"):
        optimizer.load_state_dict(state)


def test_an_optimizer_of_ones_own_needs_a_step():
    class Standing(kael.optim.SGD):
        _step = kael.optim.Optimizer._step

    x = kael.tensor([1.0], requires_grad=True)
    x.sum().backward()
    with pytest.raises(kael.Error, match="Standing has no step of its own, expected its class to define one"):
        Standing([x]).step()


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_steps_have_the_same_bits_for_any_number_of_threads(threads, threads_restored):
    def run(count):
        kael.set_num_threads(count)
        x = kael.tensor(np.linspace(-1, 1, 100_000, dtype="float32"), requires_grad=True)
        optimizer = kael.optim.AdamW([x], lr=0.05)
        (x * x).sum().backward()
        norm = kael.optim.clip_grad_norm_([x], 1.0)
        optimizer.step()
        return norm, x.detach().numpy().tobytes()

    assert run(threads) == run(1)


def test_a_norm_beyond_the_squares_of_float32_is_finite():  # KB058
    parameters = [kael.tensor([0.0], requires_grad=True) for _ in range(128)]
    for parameter in parameters:
        parameter.grad = kael.tensor([1e19])
    assert kael.optim.clip_grad_norm_(parameters, 1.0) == pytest.approx(1e19 * math.sqrt(128), rel=1e-6)
    assert parameters[0].grad.item() == pytest.approx(1 / math.sqrt(128), rel=1e-6)


def test_without_a_limit_the_norm_is_only_measured():
    x = kael.tensor([3.0, 4.0], requires_grad=True)
    x.grad = kael.tensor([3.0, 4.0])
    assert kael.optim.clip_grad_norm_([x], math.inf) == 5.0
    assert x.grad.tolist() == [3.0, 4.0]


def test_clipping_scales_all_gradients_together():  # KB056
    x, y, z = (kael.tensor([0.0], requires_grad=True) for _ in range(3))
    (x * 3.0 + y * 4.0).sum().backward()
    assert kael.optim.clip_grad_norm_([x, y, z], 10.0) == 5.0
    assert (x.grad.item(), y.grad.item()) == (3.0, 4.0)
    assert kael.optim.clip_grad_norm_([x, y, z], 1.0) == 5.0
    assert (x.grad.item(), y.grad.item()) == pytest.approx((0.6, 0.8))
    assert kael.optim.clip_grad_norm_([z], 1.0) == 0.0
    x.grad = kael.tensor([math.inf])
    assert kael.optim.clip_grad_norm_([x, y], 1.0) == math.inf
    assert y.grad.item() == pytest.approx(0.8)


def test_a_schedule_rises_and_falls():
    optimizer = kael.optim.SGD([kael.tensor([1.0])], lr=2.0)
    schedule = kael.optim.CosineSchedule(optimizer, warmup_steps=4, total_steps=8, final_share=0.1)
    rates = []
    for _ in range(10):
        rates.append(optimizer.param_groups[0]["lr"])
        schedule.step()
    assert rates[:5] == [0.5, 1.0, 1.5, 2.0, 2.0]
    assert rates[6] == pytest.approx(2.0 * 0.55)
    assert rates[8:] == pytest.approx([0.2, 0.2])
    with pytest.raises(kael.Error, match="warmup_steps is 8, expected less than total_steps, 8"):
        kael.optim.CosineSchedule(optimizer, 8, 8)


def test_wrong_parameters_and_options_are_named():
    x = kael.tensor([1.0], requires_grad=True)
    with pytest.raises(kael.Error, match="no parameters are given, expected one or more"):
        kael.optim.SGD([])
    with pytest.raises(TypeError, match=r"params must be an iterable of tensors .* not one kael\.Tensor"):
        kael.optim.SGD(x)
    with pytest.raises(TypeError, match=r"parameter 1 must be a kael\.Tensor, not float"):
        kael.optim.SGD([x, 1.0])
    with pytest.raises(kael.Error, match="parameter 0 is the result of MulBackward, expected a leaf"):
        kael.optim.SGD([x * 2.0])
    with pytest.raises(kael.Error, match="a parameter is given twice, expected each once"):
        kael.optim.SGD([x, x])
    with pytest.raises(kael.Error, match=r"unknown options \['momentun'\]"):
        kael.optim.SGD([{"params": [x], "momentun": 0.9}])
    with pytest.raises(kael.Error, match="lr is -1, expected 0 to less than inf"):
        kael.optim.SGD([x], lr=-1)
    with pytest.raises(kael.Error, match=r"betas\[1\] is 1.0, expected 0 to less than 1"):
        kael.optim.Adam([x], betas=(0.9, 1.0))
    with pytest.raises(TypeError, match=r"betas must be two numbers, not 0\.9"):
        kael.optim.Adam([x], betas=0.9)
    integers = kael.optim.SGD([kael.tensor([1])])
    integers.step()  # without a gradient there is nothing to do


def test_read_only_parameters_are_named_and_can_be_made_writable():
    model = kael.GPT.from_pretrained(kael.default_model_path())
    assert model.requires_grad_() is model
    optimizer = kael.optim.SGD(model.parameters(), lr=0.1)
    before = model([1, 2, 3]).detach().numpy().copy()
    kael.cross_entropy(model([1, 2, 3]), kael.tensor([2, 3, 4])).backward()
    model.train()
    assert not any(parameter.is_read_only for parameter in model.parameters())
    np.testing.assert_array_equal(model([1, 2, 3]).detach().numpy(), before)
    optimizer.step()
    with kael.no_grad():
        after = model([1, 2, 3]).numpy()
    assert not np.array_equal(after, before)
    np.testing.assert_allclose(model([1, 2, 3]).detach().numpy(), after, atol=1e-3)


def test_a_step_that_was_refused_does_not_count():
    x, y = (kael.tensor([1.0, 2.0], requires_grad=True) for _ in range(2))
    refused, fresh = kael.optim.Adam([x], lr=0.1), kael.optim.Adam([y], lr=0.1)
    (x * x + y * y).sum().backward()
    refused.state[0].update(step=0, exp_avg=kael.zeros(2), exp_avg_sq=kael.zeros(3))
    with pytest.raises(kael.Error, match="adam_step: the square is"):
        refused.step()
    refused.state[0]["exp_avg_sq"] = kael.zeros(2)
    for optimizer in (refused, fresh):
        optimizer.step()
        assert optimizer.state[0]["step"] == 1
    assert x.tolist() == y.tolist()


@pytest.mark.skipif(not CHECKPOINTS.is_dir(), reason=f"the recorded results are not there ({CHECKPOINTS})")
@pytest.mark.parametrize("name", ["gpt2-bytes", "gpt2-mini", "gpt2-wide"])
def test_five_steps_of_training_are_those_of_the_reference(name):
    folder = CHECKPOINTS / name
    golden = json.loads((folder / "golden.json").read_text())
    model = kael.GPT.from_pretrained(folder)
    for parameter in model.parameters():
        assert parameter.is_read_only
        parameter.requires_grad_()
    parameters = model.parameters()
    optimizer = kael.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    ids = golden["loss"]["ids"]
    targets = kael.tensor(ids[1:])
    first = kael.cross_entropy(model(ids)[: len(ids) - 1], targets)
    first.backward()
    with pytest.raises(
        kael.Error, match=r"adam_step: the parameter's memory is read-only .*expected memory .*train\(\)"
    ):
        optimizer.step()
    model.train()
    optimizer = kael.optim.AdamW(parameters, lr=1e-3, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for loss_before, norm_before in golden["train"]["loss_and_norm"]:
        optimizer.zero_grad()
        loss = kael.cross_entropy(model(ids)[: len(ids) - 1], targets)
        loss.backward()
        assert loss.item() == pytest.approx(loss_before, abs=1e-4)
        assert kael.optim.clip_grad_norm_(parameters, 1.0) == pytest.approx(norm_before, rel=1e-4)
        optimizer.step()
