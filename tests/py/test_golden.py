"""Real checkpoints against the results that PyTorch and their authors recorded (shared/data/*/NOTE.txt)."""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import kael

DATA = Path(__file__).resolve().parents[2].parent / "shared" / "data"
CHECKPOINTS = ("gpt2-bytes", "gpt2-mini", "gpt2-wide")

pytestmark = pytest.mark.skipif(not DATA.is_dir(), reason=f"the recorded results are not there ({DATA})")


@pytest.fixture(scope="module", params=CHECKPOINTS)
def checkpoint(request) -> tuple[kael.GPT, list[dict], dict[str, np.ndarray]]:
    folder = DATA / "checkpoints" / request.param
    prompts = json.loads((folder / "golden.json").read_text())["prompts"]
    with np.load(folder / "golden.npz") as golden:
        logits = {name: golden[name] for name in golden.files if name.startswith("logits_")}
    return kael.GPT.from_pretrained(folder), prompts, logits


def trained(name: str) -> tuple[kael.GPT, Path]:
    folder = DATA / "trained" / name
    return kael.GPT.from_pretrained(folder), folder


def logits_of(model: kael.GPT, ids: list[int]) -> np.ndarray:
    return model(ids).numpy()


def test_logits_are_those_of_the_reference_in_float64(checkpoint):
    model, prompts, golden = checkpoint
    for index, prompt in enumerate(prompts):
        expected = golden[f"logits_{index}"]
        actual = logits_of(model, prompt["ids"])
        if expected.ndim == 1:  # only the last position was recorded
            actual = actual[-1]
        assert np.abs(actual - expected).max() < 2e-5


@pytest.mark.parametrize("use_cache", [True, False])
def test_greedy_continuations_are_those_of_the_reference(checkpoint, use_cache):
    model, prompts, _ = checkpoint
    for prompt in prompts:
        steps = len(prompt["greedy"])
        assert model.generate(prompt["ids"], steps, temperature=0, use_cache=use_cache) == prompt["greedy"]


def test_logits_have_the_same_bits_for_one_two_and_three_threads(checkpoint, threads_restored):
    model, prompts, _ = checkpoint
    for prompt in prompts:
        bits = []
        for count in (1, 2, 3):
            kael.set_num_threads(count)
            bits.append(logits_of(model, prompt["ids"]).tobytes())
        assert bits[0] == bits[1] == bits[2]


def test_a_batch_gives_each_row_its_own_bits(checkpoint):
    model, prompts, _ = checkpoint
    ids = [prompt["ids"][:1] * 4 for prompt in prompts]
    batch = model(np.array(ids)).numpy()
    for row, expected in zip(ids, batch, strict=True):
        assert logits_of(model, row).tobytes() == expected.tobytes()


# The recorded activations are those of layer 0, except the blocks.
ACTIVATIONS = {
    "tok_emb": "wte",
    "x": "embedding",
    "ln1": "h.0.ln_1",
    "qkv": "h.0.attn.c_attn",
    "q": "h.0.attn.query",
    "k": "h.0.attn.key",
    "v": "h.0.attn.value",
    "att": "h.0.attn.scores",
    "attSm": "h.0.attn.weights",
    "y": "h.0.attn.mixed",
    "yProj": "h.0.attn.c_proj",
    "attnResid": "h.0.residual",
    "ln2": "h.0.ln_2",
    "fc": "h.0.mlp.c_fc",
    "gelu": "h.0.mlp.act",
    "mlp": "h.0.mlp.c_proj",
    "mlpResid": "h.0",
    "block0": "h.0",
    "block1": "h.1",
    "block2": "h.2",
    "ln_f": "ln_f",
    "lm_head": "logits",
    "probs": "probabilities",
}


def test_every_intermediate_result_is_the_one_that_was_recorded():
    model, folder = trained("llmviz-sort")
    inputs = np.load(folder / "partial_idx.npy").astype(np.int64)
    for row, ids in enumerate(inputs):
        shown = {name: value.numpy() for name, value in model.activations(ids).items()}
        np.testing.assert_allclose(shown["wpe"], np.load(folder / "partial_pos_emb.npy")[0], atol=1e-4)
        for recorded, name in ACTIVATIONS.items():
            expected = np.load(folder / f"partial_{recorded}.npy")[row]
            np.testing.assert_allclose(shown[name], expected, rtol=0, atol=1e-4, err_msg=name)


def test_what_is_shown_is_what_is_computed(checkpoint):
    model, prompts, _ = checkpoint
    for prompt in prompts:
        shown = model.activations(prompt["ids"])
        assert shown["logits"].numpy().tobytes() == logits_of(model, prompt["ids"]).tobytes()


def test_the_trained_sorter_sorts_every_input():
    model, _ = trained("llmviz-sort")
    for ids in itertools.product(range(3), repeat=6):
        assert model.generate(ids, 6, temperature=0) == sorted(ids)


def test_the_process_planner_continues_its_reference_prompts():
    model, folder = trained("capp-gpt")
    id_of = json.loads((folder / "token_mappings.json").read_text())["token2id"]
    references = json.loads((folder / "reference.json").read_text())
    for reference in references:
        expected = [id_of[name] for name in reference["greedy"]]
        prompt = reference["ids"][: -len(expected)]
        assert reference["ids"] == prompt + expected
        assert model.generate(prompt, len(expected), temperature=0) == expected
    expected = np.load(folder / "reference_logits_f32.npy")
    assert np.abs(logits_of(model, references[0]["ids"]) - expected).max() < 1e-4


def test_the_character_model_recites_its_reference_texts():
    model, folder = trained("slm4096")
    tokenizer = kael.BpeTokenizer(folder / "vocab.json", folder / "merges.txt")
    reference = json.loads((folder / "reference.json").read_text())
    for text in reference["greedy"]:
        prompt = tokenizer.encode(text["prompt"])
        new = model.generate(prompt, len(text["greedy_100"]) - len(text["prompt"]), temperature=0)
        assert tokenizer.decode(prompt + new).decode() == text["greedy_100"]
    expected = np.load(folder / "reference_logits_f32.npy")
    assert np.abs(logits_of(model, reference["input_ids"]) - expected).max() < 1e-4
