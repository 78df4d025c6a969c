"""Gradients of whole models against those that Hugging Face transformers gives in float64."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import kael

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data" / "checkpoints"

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"the recorded results are not there ({DATA})")


@pytest.fixture(scope="module", params=["gpt2-bytes", "gpt2-mini", "gpt2-wide"])
def walked(request):
    """A model after one backward pass, the recorded results, and the loss."""
    folder = DATA / request.param
    golden = json.loads((folder / "golden.json").read_text())
    model = kael.GPT.from_pretrained(folder)
    for parameter in model.parameters():
        parameter.requires_grad_()
    ids = np.array(golden["loss"]["ids"])
    logits = model(ids)
    batch = ids if ids.ndim == 2 else ids[None]
    logits = logits.reshape(*batch.shape, logits.shape[-1])
    vocabulary = logits.shape[-1]
    before_last = logits[:, : batch.shape[1] - 1]
    loss = kael.cross_entropy(before_last.reshape(-1, vocabulary), kael.tensor(batch[:, 1:].reshape(-1)))
    loss.backward()
    with np.load(folder / "golden.npz") as arrays:
        whole = {
            name.removeprefix("grad:"): arrays[name] for name in arrays.files if name.startswith("grad:")
        }
    return model, golden, whole, loss.item()


def test_the_loss_is_that_of_the_reference(walked):
    _, golden, _, loss = walked
    assert loss == pytest.approx(golden["loss"]["value"], abs=1e-4)


def test_every_gradient_has_the_norm_of_the_reference(walked):
    model, golden, _, _ = walked
    norms = {name.removeprefix("transformer."): norm for name, norm in golden["grad_norms"].items()}
    norms.pop("lm_head.weight", None)
    parameters = model.named_parameters()
    assert parameters.keys() == norms.keys()
    for name, parameter in parameters.items():
        assert parameter.grad.norm().item() == pytest.approx(norms[name], rel=1e-4, abs=1e-4), name


def test_whole_gradients_are_those_of_the_reference(walked):
    model, _, whole, _ = walked
    parameters = model.named_parameters()
    assert whole
    for name, expected in whole.items():
        actual = parameters[name.removeprefix("transformer.")].grad.numpy()
        np.testing.assert_allclose(actual, expected, atol=1e-4, rtol=1e-4, err_msg=name)


def test_recorded_logits_are_those_of_the_decoder(walked):
    model, golden, _, _ = walked
    ids = golden["prompts"][0]["ids"]
    recorded = model(ids)
    assert recorded.requires_grad
    with kael.no_grad():
        plain = model(ids)
    assert not plain.requires_grad
    np.testing.assert_allclose(recorded.detach().numpy(), plain.numpy(), atol=2e-4)
