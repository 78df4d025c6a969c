"""Models whose matrices are packed as bfloat16, int8 or int4: near the float32 model, the same bits whatever
the way through them, and refusals of what they cannot do. The formats themselves are tested natively
(tests/native/kernels/packed_test.cpp).
"""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
import sanitizer

import kael

PACKED = ("bfloat16", "int8", "int4")
PROMPT = [int(i) for i in np.random.default_rng(1).integers(0, 250, 40)]
# Relative to the spread of the logits. One rounding of a weight is up to 2**-9 as bfloat16, and 1/254 of the
# largest in its group as int8, 1/16 as int4.
TOLERANCE = {"bfloat16": 0.01, "int8": 0.03, "int4": 0.25}


@pytest.fixture(params=["tied", "untied", "odd"])
def folder(request, tmp_path):
    """Checkpoints of sizes that fill no panel, pair or group."""
    kael.manual_seed(3)
    options = {
        "tied": {"dimension": 48, "heads": 3},
        "untied": {"dimension": 64, "heads": 2, "tie_word_embeddings": False},
        "odd": {"dimension": 21, "heads": 3, "inner_dimension": 67},
    }[request.param]
    model = kael.GPT(vocab_size=251, max_positions=64, layers=3, **options)
    for parameter in model.parameters():
        if parameter.ndim > 1:  # larger than at random, so that attention looks somewhere
            parameter.copy_(parameter * 3)
    model.save_pretrained(tmp_path)
    return tmp_path


def logits(model: kael.GPT, ids: list[int]) -> np.ndarray:
    return model(ids).numpy()


@pytest.mark.parametrize("dtype", PACKED)
def test_logits_are_near_those_of_float32(folder, dtype):
    exact = logits(kael.GPT.from_pretrained(folder), PROMPT)
    near = logits(kael.GPT.from_pretrained(folder, dtype=dtype), PROMPT)
    assert near.dtype == np.float32
    error = np.sqrt(np.mean((near - exact) ** 2)) / np.std(exact)
    assert 0 < error < TOLERANCE[dtype]


@pytest.mark.parametrize("dtype", PACKED)
def test_a_position_has_the_same_bits_by_every_way_and_for_every_number_of_threads(
    folder, dtype, threads_restored
):
    model = kael.GPT.from_pretrained(folder, dtype=dtype)
    expected = logits(model, PROMPT)
    for threads in (1, 2, 3, 5):
        kael.set_num_threads(threads)
        for length in (1, 2, 7, 40):
            np.testing.assert_array_equal(logits(model, PROMPT[:length]), expected[:length])
        shown = model.activations(PROMPT)["logits"].numpy()
        np.testing.assert_array_equal(shown, expected)


@pytest.mark.parametrize("dtype", PACKED)
def test_generation_gives_what_the_logits_say_also_past_the_context(folder, dtype, threads_restored):
    model = kael.GPT.from_pretrained(folder, dtype=dtype)
    history = list(PROMPT)
    for _ in range(40):
        history.append(int(np.argmax(logits(model, history[-64:])[-1])))
    for threads in (1, 2, 3):
        kael.set_num_threads(threads)
        for use_cache in (True, False):
            assert model.generate(PROMPT, 40, temperature=0, use_cache=use_cache) == history[40:]


@pytest.mark.parametrize("stored", ["float16", "bfloat16"])
@pytest.mark.parametrize("dtype", PACKED)
def test_a_file_of_16_bits_is_packed_as_its_values_are(folder, tmp_path_factory, dtype, stored):
    short = tmp_path_factory.mktemp("short")
    kael.GPT.from_pretrained(folder).save_pretrained(short, dtype=stored)
    wide = tmp_path_factory.mktemp("wide")
    kael.GPT.from_pretrained(short).save_pretrained(wide)
    np.testing.assert_array_equal(
        logits(kael.GPT.from_pretrained(short, dtype=dtype), PROMPT),
        logits(kael.GPT.from_pretrained(wide, dtype=dtype), PROMPT),
    )


def test_bfloat16_weights_in_bfloat16_lose_nothing_but_in_the_products(folder, tmp_path_factory):
    short = tmp_path_factory.mktemp("short")
    kael.GPT.from_pretrained(folder).save_pretrained(short, dtype="bfloat16")
    packed = kael.GPT.from_pretrained(short, dtype="bfloat16")
    widened = kael.GPT.from_pretrained(short)
    wte = widened.named_parameters()["wte.weight"].numpy()
    np.testing.assert_array_equal(packed.activations(PROMPT)["wte"].numpy(), wte[PROMPT])


@pytest.mark.parametrize("dtype", PACKED)
def test_the_file_is_no_longer_needed(folder, dtype):
    model = kael.GPT.from_pretrained(folder, dtype=dtype)
    expected = logits(model, PROMPT)
    (folder / "model.safetensors").write_bytes(b"")
    np.testing.assert_array_equal(logits(model, PROMPT), expected)


@pytest.mark.parametrize("dtype", PACKED)
def test_loaded_weights_come_in_the_same_format(folder, tmp_path_factory, dtype):
    other = tmp_path_factory.mktemp("other")
    config = kael.GPT.from_pretrained(folder).config
    fields = {name: getattr(config, name) for name in kael.GPTConfig.__slots__}
    kael.GPT(**fields).save_pretrained(other)
    model = kael.GPT.from_pretrained(folder, dtype=dtype)
    model.load_gpt2(other / "model.safetensors")
    assert model.dtype == dtype
    np.testing.assert_array_equal(
        logits(model, PROMPT), logits(kael.GPT.from_pretrained(other, dtype=dtype), PROMPT)
    )


def test_dtype_says_what_a_model_computes_in(folder):
    assert kael.GPT.from_pretrained(folder).dtype == "float32"
    for dtype in PACKED:
        assert kael.GPT.from_pretrained(folder, dtype=dtype).dtype == dtype


def test_a_packed_model_counts_its_parameters_and_knows_its_configuration(folder):
    whole = kael.GPT.from_pretrained(folder)
    for dtype in PACKED:
        packed = kael.GPT.from_pretrained(folder, dtype=dtype)
        assert packed.parameter_count == whole.parameter_count
        assert packed.config == whole.config


@pytest.mark.parametrize("dtype", PACKED)
def test_what_needs_parameters_is_refused_and_changes_nothing(folder, tmp_path_factory, dtype):
    model = kael.GPT.from_pretrained(folder, dtype=dtype)
    expected = logits(model, PROMPT)
    refused = tmp_path_factory.mktemp("refused") / "model"

    def set_dropout() -> None:
        model.dropout = 0.1

    for call in (
        set_dropout,
        model.parameters,
        model.state_dict,
        model.train,
        lambda: model.load_state_dict({}),
        lambda: model.save_pretrained(refused),
    ):
        with pytest.raises(
            kael.Error, match=f"with the dtype {dtype}, packed .*expected one loaded with the dtype float32"
        ) as caught:
            call()
        assert caught.value.code == kael.ErrorCode.UNSUPPORTED
    assert not model.training
    assert not refused.exists()
    np.testing.assert_array_equal(logits(model, PROMPT), expected)


@pytest.mark.parametrize("bad", [np.inf, np.nan])
@pytest.mark.parametrize("dtype", PACKED)
def test_a_weight_that_is_no_number_is_reported_by_the_first_token(folder, dtype, bad):
    model = kael.GPT.from_pretrained(folder).train()
    model.named_parameters()["h.1.mlp.c_fc.weight"].numpy()[3, 5] = bad
    model.save_pretrained(folder)
    broken = kael.GPT.from_pretrained(folder, dtype=dtype)
    with pytest.raises(kael.Error, match="python -m kael inspect"):
        broken.generate(PROMPT, 4, temperature=0)


_PEAK = """
import sys
import kael
from kael._machine import peak_resident_bytes
folder, dtype = sys.argv[1:]
before = peak_resident_bytes()
model = kael.GPT.from_pretrained(folder, dtype=dtype)
model.generate([1, 2, 3], 4, temperature=0)
print(peak_resident_bytes() - before)
"""


@sanitizer.measures_memory
@pytest.mark.skipif(
    not sys.platform.startswith("linux"), reason="the peak of one program is told by Linux alone"
)
@pytest.mark.parametrize(
    ("dtype", "bytes_each"), [("bfloat16", 2.0), ("int8", 1 + 2 / 64), ("int4", 0.5 + 2 / 32)]
)
@pytest.mark.parametrize("stored", ["float32", "bfloat16"])
def test_loading_needs_little_more_memory_than_the_packed_weights(root, tmp_path, dtype, bytes_each, stored):
    model = kael.GPT(vocab_size=30_000, max_positions=32, layers=4, heads=4, dimension=512)
    model.save_pretrained(tmp_path, dtype=stored)
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, str(tmp_path), dtype],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(root / "py")},
    )
    # What is being packed at the time is there too: 8 MB of the table at float32, and the read pages.
    assert int(done.stdout) < model.parameter_count * bytes_each + 40e6
