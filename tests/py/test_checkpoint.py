"""A training that is interrupted and goes on from its checkpoint."""

from __future__ import annotations

import json

import numpy as np
import pytest

import kael


def network(seed=1):
    kael.manual_seed(seed)
    return kael.nn.Sequential(
        kael.nn.Linear(6, 8), kael.nn.Tanh(), kael.nn.Dropout(0.3), kael.nn.Linear(8, 3)
    )


def gpt(seed=1):
    kael.manual_seed(seed)
    model = kael.GPT(vocab_size=11, max_positions=8, layers=1, heads=2, dimension=8)
    for parameter in model.parameters():
        parameter.requires_grad_()
    return model


def losses(model, optimizer, schedule, steps):
    """Trains on batches that the random stream gives."""
    found = []
    for _ in range(steps):
        optimizer.zero_grad()
        if isinstance(model, kael.GPT):
            ids = (kael.rand(2, 9) * 11.0).to("int64")
            loss = kael.cross_entropy(model(ids[:, :-1]).reshape(-1, 11), ids[:, 1:].reshape(-1))
        else:
            loss = kael.cross_entropy(model(kael.rand(4, 6)), kael.tensor([0, 1, 2, 0]))
        loss.backward()
        optimizer.step()
        schedule.step()
        found.append(loss.item())
    return found


def training(make, optimizer, **options):
    model = make()
    parameters = model.train().parameters()
    steps = getattr(kael.optim, optimizer)(parameters, lr=0.05, **options)
    return model, steps, kael.optim.CosineSchedule(steps, warmup_steps=2, total_steps=9, final_share=0.1)


def everything(model):
    return {name: tensor.tolist() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("make", [network, gpt])
@pytest.mark.parametrize(
    ("optimizer", "options"),
    [("SGD", {"momentum": 0.9}), ("Adam", {}), ("AdamW", {"betas": (0.8, 0.95), "weight_decay": 0.1})],
)
def test_a_resumed_training_has_the_bits_of_an_uninterrupted_one(tmp_path, make, optimizer, options):
    path = tmp_path / "checkpoint.safetensors"
    whole = training(make, optimizer, **options)
    losses(*whole, steps=3)
    kael.save_checkpoint(path, *whole, progress={"step": 3})
    expected = losses(*whole, steps=4)

    model, steps, schedule = training(lambda: make(seed=99), optimizer, **options)
    losses(model, steps, schedule, steps=1)
    assert kael.load_checkpoint(path, model, steps, schedule) == {"step": 3}
    assert losses(model, steps, schedule, steps=4) == expected
    assert everything(model) == everything(whole[0])


def test_a_model_alone_can_be_saved_and_taken(tmp_path):
    path = tmp_path / "checkpoint.safetensors"
    model = network()
    kael.save_checkpoint(path, model)
    other = network(seed=2)
    assert kael.load_checkpoint(path, other) == {}
    assert everything(other) == everything(model)
    with pytest.raises(
        kael.Error, match=r"checkpoint\.safetensors does not fit: it was saved without optimizer"
    ):
        kael.load_checkpoint(path, model, kael.optim.AdamW(model.parameters()))


class Raw(str):
    """JSON as it is to be written."""


def nested(depth):
    return Raw("[" * depth + "]" * depth)


def altered(path, change):
    file = kael.load_safetensors(path)
    state = {key: json.loads(text) for key, text in file.metadata.items()}
    tensors = dict(file)
    change(state, tensors)
    texts = {key: value if isinstance(value, Raw) else json.dumps(value) for key, value in state.items()}
    kael.save_safetensors(path, tensors, texts)


def swap_for_int(state, tensors):
    tensors["optimizer.0.exp_avg"] = np.zeros((6, 8), np.int32)


CHANGES = {
    "no version": (lambda state, _: state.pop("kael.checkpoint"), "is no checkpoint of a training"),
    "no random state": (
        lambda state, _: state.pop("random_state"),
        "damaged checkpoint: KeyError: 'random_state'",
    ),
    "a random state too long": (
        lambda state, _: state["random_state"].append(1),
        "damaged checkpoint: ValueError",
    ),
    "a negative seed": (lambda state, _: state.update(random_state=[-1, 0]), "random_state is -1"),
    "progress that is a list": (lambda state, _: state.update(progress=[]), "progress must be a mapping"),
    "no groups": (lambda state, _: state["optimizer"].pop("param_groups"), "KeyError: 'param_groups'"),
    "an unknown option": (
        lambda state, _: state["optimizer"]["param_groups"][0].update(x=1),
        "unknown options",
    ),
    "a missing option": (lambda state, _: state["optimizer"]["param_groups"][0].pop("lr"), "missing options"),
    "a rate that is text": (
        lambda state, _: state["optimizer"]["param_groups"][0].update(lr="1"),
        "lr must be a number, not str",
    ),
    "a step that is text": (
        lambda state, _: state["optimizer"]["state"][0].update(step="1"),
        "the state 'step' of parameter 0",
    ),
    "a moment without its twin": (
        lambda _, tensors: tensors.pop("optimizer.1.exp_avg_sq"),
        r"the state of parameter 1 is \['exp_avg', 'step'\], expected",
    ),
    "a moment of integers": (swap_for_int, r"'exp_avg' of parameter 0 is int32"),
    "a moment of no parameter": (
        lambda _, tensors: tensors.update({"optimizer.99.exp_avg": np.zeros(1)}),
        "damaged checkpoint: IndexError",
    ),
    "options nested too deep": (
        lambda state, _: state.update(progress=nested(100_000)),
        "damaged checkpoint: RecursionError",
    ),
    "a number that is none": (
        lambda _, tensors: tensors.update({"optimizer.x.exp_avg": np.zeros(1)}),
        "damaged checkpoint: ValueError",
    ),
    "a schedule of more groups": (
        lambda state, _: state["schedule"]["peaks"].append(1.0),
        "the state is of 2 groups",
    ),
    "a weight less": (lambda _, tensors: tensors.pop("model.0.weight"), r"missing \['0\.weight'\]"),
    "a weight of another shape": (
        lambda _, tensors: tensors.update({"model.0.weight": np.zeros(3, np.float32)}),
        r"the state of '0\.weight' has shape \[3\]",
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_damaged_checkpoint_is_named_and_changes_nothing(tmp_path, name):
    change, message = CHANGES[name]
    path = tmp_path / "checkpoint.safetensors"
    parts = training(network, "AdamW")
    losses(*parts, steps=2)
    kael.save_checkpoint(path, *parts)
    altered(path, change)
    losses(*parts, steps=1)
    random, weights = kael.random_state(), everything(parts[0])
    moments = [{key: str(value) for key, value in state.items()} for state in parts[1].state]
    with pytest.raises(kael.Error, match=message) as caught:
        kael.load_checkpoint(path, *parts)
    assert str(path) in caught.value.message
    assert (kael.random_state(), everything(parts[0])) == (random, weights)
    assert [{key: str(value) for key, value in state.items()} for state in parts[1].state] == moments


def test_progress_must_be_json(tmp_path):
    for value in (object(), float("nan")):
        with pytest.raises(kael.Error, match="progress cannot be written as JSON"):
            kael.save_checkpoint(tmp_path / "x", network(), progress={"loss": value})
    assert list(tmp_path.iterdir()) == []


def test_a_model_takes_the_state_of_another():
    model, other = gpt(), gpt(seed=2)
    other.load_state_dict(model.state_dict())
    assert everything(other) == everything(model)
    assert other([1, 2, 3]).tolist() == model([1, 2, 3]).tolist()
    with pytest.raises(
        kael.Error, match=r"the state does not fit: missing .*surplus \['x'\], expected neither"
    ):
        other.load_state_dict({"x": kael.tensor([1.0])})
    with pytest.raises(TypeError, match=r"'wte\.weight' must be a kael\.Tensor, not list"):
        other.load_state_dict({**model.state_dict(), "wte.weight": [1.0]})


@pytest.mark.parametrize("seed", [0, 2**64 - 1])
@pytest.mark.parametrize("draws", [0, 1, 2, 5])
def test_the_random_stream_goes_on_where_its_state_was_taken(seed, draws):
    kael.manual_seed(seed)
    for _ in range(draws):
        kael.rand(3)
    state = kael.random_state()
    assert state == (seed, draws)
    expected = kael.rand(3).tolist()
    kael.manual_seed(5)
    kael.set_random_state(state)
    assert kael.rand(3).tolist() == expected


@pytest.mark.parametrize(
    ("state", "error"), [(7, TypeError), ((1,), TypeError), ((1, -1), kael.Error), (("1", 0), TypeError)]
)
def test_what_is_no_random_state_is_refused(state, error):
    with pytest.raises(error, match="state"):
        kael.set_random_state(state)
