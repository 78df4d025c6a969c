"""Dropout of a GPT: where it is, how much, and when."""

from __future__ import annotations

import json

import numpy as np
import pytest

import kael

WIDTH, LENGTH = 64, 32
IDS = list(range(LENGTH))


def model_with_one_source(source, dropout):
    """A model whose residual stream has one source, ``embedding``, ``attention`` or ``mlp``, of which element
    i has the value i + 1 at every position, and whose logits are that stream, normalized.
    """
    model = kael.GPT(WIDTH, LENGTH, 1, 2, WIDTH, tie_word_embeddings=False, dropout=dropout)
    ramp = kael.arange(1.0, WIDTH + 1.0)
    parameters = model.named_parameters()
    for name, parameter in parameters.items():
        if not name.startswith(("h.0.ln", "ln_f")):
            parameter.fill_(0.0)
    parameters["lm_head.weight"].copy_(kael.eye(WIDTH))
    if source == "embedding":
        parameters["wpe.weight"].copy_(ramp.expand(LENGTH, WIDTH))
    else:
        name = "attn" if source == "attention" else source
        parameters[f"h.0.{name}.c_proj.bias"].copy_(ramp)
    return model


@pytest.mark.parametrize("source", ["embedding", "attention", "mlp"])
def test_each_source_of_the_residual_stream_drops_out(source):
    kael.manual_seed(1)
    model = model_with_one_source(source, 0.25)
    logits = model(IDS).numpy()
    # Normalizing keeps the order, so what dropped out is what is least in its row, below element 0.
    dropped = logits == logits.min(axis=1, keepdims=True)
    assert dropped.mean() == pytest.approx(0.25, abs=5 * np.sqrt(0.25 * 0.75 / logits.size))
    expected = np.where(dropped, 0, np.arange(1, WIDTH + 1)) / 0.75
    expected -= expected.mean(1, keepdims=True)
    expected /= np.sqrt(np.square(expected).mean(1, keepdims=True) + 1e-5)
    np.testing.assert_allclose(logits, expected, atol=1e-5)


def test_gradients_flow_where_nothing_dropped_out():
    kael.manual_seed(1)
    model = model_with_one_source("embedding", 0.5)
    table = model.named_parameters()["wpe.weight"].requires_grad_()
    logits = model(IDS)
    (logits * kael.randn(*logits.shape)).sum().backward()
    dropped = logits.detach().numpy() == logits.detach().numpy().min(axis=1, keepdims=True)
    np.testing.assert_array_equal(table.grad.numpy() == 0, dropped)


def test_dropout_counts_in_training_mode_alone():
    kael.manual_seed(1)
    model = kael.GPT(WIDTH, LENGTH, 1, 2, WIDTH, dropout=0.5)
    assert model.training
    assert model(IDS).tolist() != model(IDS).tolist()
    assert not model.eval().training
    whole = model(IDS).tolist()
    assert model(IDS).tolist() == whole
    model.dropout = 0.3
    assert model(IDS).tolist() == whole
    assert model.train()(IDS).tolist() != whole
    assert model.generate(IDS[:3], 9, seed=2) == model.eval().generate(IDS[:3], 9, seed=2)
    model.train().dropout = 0.0
    np.testing.assert_array_equal(model(IDS).numpy(), whole)


def test_what_drops_out_depends_on_the_seed_and_not_on_threads(threads_restored):
    def logits(seed, threads):
        kael.set_num_threads(threads)
        kael.manual_seed(seed)
        return kael.GPT(WIDTH, LENGTH, 2, 2, WIDTH, dropout=0.2)([IDS] * 20).numpy()

    first = logits(4, 1)
    assert np.array_equal(logits(4, 3), first)
    assert not np.array_equal(logits(5, 1), first)


def test_a_model_without_dropout_draws_nothing():
    kael.manual_seed(1)
    model = kael.GPT(WIDTH, LENGTH, 1, 2, WIDTH)
    before = kael.random_state()
    for parameter in model.parameters():
        parameter.requires_grad_()
    model(IDS)
    assert kael.random_state() == before


def test_a_saved_model_tells_its_dropout_and_a_loaded_one_has_none(tmp_path):
    kael.GPT(WIDTH, LENGTH, 1, 2, WIDTH, dropout=0.1).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    shares = {name: config[name] for name in ("embd_pdrop", "resid_pdrop", "attn_pdrop")}
    assert shares == {"embd_pdrop": 0.1, "resid_pdrop": 0.1, "attn_pdrop": 0.0}
    loaded = kael.GPT.from_pretrained(tmp_path)
    assert (loaded.dropout, loaded.training) == (0.0, False)


@pytest.mark.parametrize("share", [-0.1, 1.0])
def test_a_share_that_makes_no_sense_is_named(share):
    with pytest.raises(kael.Error, match=f"dropout is {share:g}, expected 0 to below 1"):
        kael.GPT(WIDTH, LENGTH, 1, 2, WIDTH, dropout=share)
    model = kael.GPT(WIDTH, LENGTH, 1, 2, WIDTH, dropout=0.1)
    with pytest.raises(kael.Error, match="dropout is"):
        model.dropout = share
    assert model.dropout == 0.1
    with pytest.raises(TypeError, match="dropout must be a number"):
        model.dropout = "half"
