"""kael.GPT at the border between Python and the library. What it computes is tested against references
elsewhere.
"""

from __future__ import annotations

import json
import os
import shutil

import numpy as np
import pytest

import kael


@pytest.fixture(scope="module")
def model(checkpoint):
    return kael.GPT.from_pretrained(checkpoint)


def test_the_default_is_gpt2_small():
    config = kael.GPTConfig()
    assert (config.vocab_size, config.max_positions, config.layers, config.heads, config.dimension) == (
        50257,
        1024,
        12,
        12,
        768,
    )
    assert config.mlp_dimension == 3072


def test_a_model_has_the_configuration_that_it_was_made_with(tiny):
    assert tiny.config == kael.GPTConfig(
        vocab_size=256, max_positions=64, layers=1, heads=2, dimension=16, inner_dimension=64
    )
    layer = 4 * 16 + 16 * 48 + 48 + 16 * 16 + 16 + 2 * 16 * 64 + 64 + 16
    assert tiny.parameter_count == (256 + 64) * 16 + layer + 2 * 16


def test_every_option_reaches_the_library():
    options = {
        "vocab_size": 50,
        "max_positions": 9,
        "layers": 2,
        "heads": 3,
        "dimension": 12,
        "inner_dimension": 7,
        "layer_norm_epsilon": 1e-3,
        "activation": "relu",
        "scale_attention": False,
        "scale_attention_by_inverse_layer": True,
        "tie_word_embeddings": False,
    }
    assert kael.GPT(**options).config == kael.GPTConfig(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": 0}, "layers|0"),
        ({"heads": 5}, "heads"),
        ({"vocab_size": -1}, "vocab_size|-1"),
        ({"dimension": 2**62}, "dimension|overflow"),
        ({"dimension": 2**64}, "dimension is"),
        ({"activation": "tanh"}, "activation is 'tanh', expected 'gelu_tanh' or 'gelu_erf' or 'relu'"),
        ({"layer_norm_epsilon": float("nan")}, "layer_norm_epsilon is nan"),
    ],
)
def test_a_configuration_that_cannot_be_is_an_error(options, message):
    sizes = {"vocab_size": 256, "max_positions": 64, "layers": 1, "heads": 2, "dimension": 16}
    with pytest.raises(kael.Error, match=message):
        kael.GPT(**{**sizes, **options})


def test_a_configuration_of_wrong_types_is_a_type_error():
    with pytest.raises(TypeError, match="layers must be an integer, not True"):
        kael.GPT(layers=True)
    with pytest.raises(TypeError, match="scale_attention must be True or False"):
        kael.GPT(scale_attention=1)


def test_the_seed_decides_the_weights():
    def logits(seed):
        kael.manual_seed(seed)
        return kael.GPT(vocab_size=256, max_positions=64, layers=1, heads=2, dimension=16)([1, 2]).numpy()

    np.testing.assert_array_equal(logits(1), logits(1))
    assert not np.array_equal(logits(1), logits(2))


def test_logits_have_the_shape_of_the_ids(model):
    one = model([1, 2, 3])
    assert (one.shape, one.dtype) == ((3, 257), "float32")
    batch = model([[1, 2, 3], [4, 5, 6]])
    assert batch.shape == (2, 3, 257)
    np.testing.assert_array_equal(batch.numpy()[0], one.numpy())
    for ids in (np.array([1, 2, 3], np.uint8), kael.tensor([1, 2, 3]), (1, 2, 3)):
        np.testing.assert_array_equal(model(ids).numpy(), one.numpy())


@pytest.mark.parametrize("ids", [[], [[]], [257], [-1], [0] * 65, [[[1]]], 5 * [2**62]])
def test_ids_that_the_model_cannot_take_are_errors(model, ids):
    with pytest.raises(kael.Error):
        model(ids)


@pytest.mark.parametrize("ids", ["text", [1.5], [True], None, 3])
def test_what_is_no_list_of_ids_is_a_type_error(model, ids):
    with pytest.raises(TypeError):
        model(ids)


def test_activations_are_those_of_the_logits(model):
    activations = model.activations([1, 2, 3])
    assert all(isinstance(value, kael.Tensor) for value in activations.values())
    np.testing.assert_array_equal(activations["logits"].numpy(), model([1, 2, 3]).numpy())


def test_greedy_tokens_are_the_arguments_of_the_maximum(model):
    ids = [1, 2, 3]
    expected = []
    for _ in range(5):
        expected.append(int(np.argmax(model(ids + expected).numpy()[-1])))
    assert model.generate(ids, 5, temperature=0) == expected
    assert model.generate(ids, 5, temperature=0, use_cache=False) == expected


def test_unseeded_generations_draw_from_the_stream_of_the_process(model):
    kael.manual_seed(11)
    first = [model.generate([1], 12) for _ in range(2)]
    kael.manual_seed(11)
    assert [model.generate([1], 12) for _ in range(2)] == first
    assert first[0] != first[1]


def test_the_window_slides_past_the_last_position(model):
    assert len(model.generate([1], 100)) == 100


def test_eval_returns_the_model(model):
    assert model.eval() is model


def test_repr_says_what_it_is(tiny):
    assert repr(tiny) == (
        "<kael.GPT of 8,432 parameters: 1 layers, 2 heads, dimension 16, 256 tokens, 64 positions>"
    )


# ---- Loading


def test_load_gpt2_replaces_the_weights(checkpoint, model):
    fresh = kael.GPT(vocab_size=257, max_positions=64, layers=2, heads=2, dimension=32)
    fresh.load_gpt2(checkpoint / "model.safetensors")
    np.testing.assert_array_equal(fresh([1, 2]).numpy(), model([1, 2]).numpy())


def test_load_gpt2_refuses_another_architecture_and_keeps_the_weights(checkpoint, tiny):
    before = tiny([1, 2]).numpy()
    with pytest.raises(kael.Error) as caught:
        tiny.load_gpt2(checkpoint / "model.safetensors")
    assert "model.safetensors" in caught.value.message
    np.testing.assert_array_equal(tiny([1, 2]).numpy(), before)


def test_a_model_outlives_its_folder(checkpoint, tmp_path):
    shutil.copytree(checkpoint, tmp_path / "copy")
    model = kael.GPT.from_pretrained(tmp_path / "copy")
    expected = model.generate([1], 5, temperature=0)
    shutil.rmtree(tmp_path / "copy")
    assert model.generate([1], 5, temperature=0) == expected


def test_other_devices_and_types_are_refused(checkpoint):
    for arguments, message in [
        ({"device": "cuda"}, "device 'cuda' is not available in this build, expected 'cpu'"),
        ({"device": "int8"}, "expected 'cpu': 'int8' is a dtype, dtype='int8'"),
        (
            {"dtype": "float16"},
            "cannot compute in 'float16', expected 'float32', 'bfloat16', 'int8' or 'int4'",
        ),
    ]:
        with pytest.raises(kael.Error, match=message) as caught:
            kael.GPT.from_pretrained(checkpoint, **arguments)
        assert caught.value.code is kael.ErrorCode.UNSUPPORTED
    with pytest.raises(TypeError, match="device must be a str"):
        kael.GPT.from_pretrained(checkpoint, device=0)
    with pytest.raises(TypeError, match="dtype must be a str"):
        kael.GPT.from_pretrained(checkpoint, dtype=np.float32)
    with pytest.raises(TypeError, match="folder must be a path"):
        kael.GPT.from_pretrained(None)


@pytest.mark.parametrize("name", ["gpt2", b"openai-community/gpt2", "a\0b"])
def test_a_name_is_not_downloaded_but_refused(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(kael.Error, match=r" is no folder, .*: python -m kael download gets one$") as caught:
        kael.GPT.from_pretrained(name)
    assert caught.value.code is kael.ErrorCode.NOT_FOUND
    assert caught.value.message.startswith(kael.Error(os.fsdecode(name)).message)


def test_an_empty_path_is_not_the_working_directory(checkpoint, monkeypatch):
    monkeypatch.chdir(checkpoint)
    for kind in (kael.GPT, kael.BpeTokenizer):
        with pytest.raises(kael.Error, match="an empty path is no folder"):
            kind.from_pretrained("")


def test_what_is_missing_is_named(checkpoint, tmp_path):
    with pytest.raises(kael.Error, match="absent") as caught:
        kael.GPT.from_pretrained(tmp_path / "absent")
    assert caught.value.code is kael.ErrorCode.NOT_FOUND
    with pytest.raises(kael.Error, match=r"model\.safetensors") as caught:
        kael.GPT.from_pretrained(tmp_path)
    assert caught.value.code is kael.ErrorCode.NOT_FOUND

    weights = kael.load_safetensors(checkpoint / "model.safetensors")
    missing = weights.pop("h.1.mlp.c_fc.bias")
    shutil.copy(checkpoint / "config.json", tmp_path)
    kael.save_safetensors(tmp_path / "model.safetensors", weights)
    with pytest.raises(kael.Error, match=r"h\.1\.mlp\.c_fc\.bias"):
        kael.GPT.from_pretrained(tmp_path)
    kael.save_safetensors(
        tmp_path / "model.safetensors", {**weights, "h.1.mlp.c_fc.bias": missing, "more": missing}
    )
    with pytest.raises(kael.Error, match="more"):
        kael.GPT.from_pretrained(tmp_path)


def test_a_configuration_that_disagrees_with_the_tensors_is_an_error(checkpoint, tmp_path):
    shutil.copy(checkpoint / "model.safetensors", tmp_path)
    config = json.loads((checkpoint / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "n_embd": 16}))
    with pytest.raises(kael.Error, match=r"\[257, 32\].*\[257, 16\]|\[257, 16\].*\[257, 32\]"):
        kael.GPT.from_pretrained(tmp_path)


def test_the_package_ships_a_model():
    folder = kael.default_model_path()
    tokenizer = kael.BpeTokenizer.from_pretrained(folder)
    model = kael.GPT.from_pretrained(folder)
    text = tokenizer.decode(model.generate(tokenizer.encode("Once upon a time"), 8, temperature=0))
    assert text.decode("utf-8", "replace")


# ---- Sampling


def test_sample_next_takes_the_maximum_ties_to_the_lowest_id():
    assert kael.sample_next([0.0, 3.0, 3.0], temperature=0) == 1


def test_sample_next_follows_the_distribution():
    logits = np.log(np.array([0.1, 0.2, 0.3, 0.4], np.float32))
    cuts = [kael.sample_next(logits, draw=draw) for draw in (0.0, 0.05, 0.15, 0.25, 0.35, 0.55, 0.65, 0.99)]
    assert cuts == [0, 0, 1, 1, 2, 2, 3, 3]
    assert {kael.sample_next(logits, top_k=2, draw=draw / 10) for draw in range(10)} == {2, 3}


def test_sample_next_never_takes_what_is_impossible():  # KB106
    logits = [-np.inf, 0.0, -np.inf]
    assert {kael.sample_next(logits, draw=draw) for draw in (0.0, 0.5, np.nextafter(1.0, 0.0))} == {1}


@pytest.mark.parametrize(
    "arguments",
    [
        {"logits": [np.nan, 1.0]},
        {"logits": [-np.inf, -np.inf]},
        {"logits": []},
        {"logits": [[1.0]]},
        {"draw": 1.0},
        {"draw": -0.1},
        {"temperature": -1},
        {"top_k": -1},
    ],
)
def test_sample_next_refuses_what_makes_no_sense(arguments):
    with pytest.raises(kael.Error):
        kael.sample_next(**{"logits": [1.0, 2.0], **arguments})
