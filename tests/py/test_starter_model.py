"""The model that the package ships is what its card says."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import kael

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "py" / "kael" / "models" / "starter"
BOOKS = ROOT.parent / "shared" / "data" / "corpora" / "standardebooks"
SAMPLES = json.loads((FOLDER / "samples.json").read_text("utf-8"))

# Writes the samples again, as JSON.
WRITE = """
import json, sys, kael
folder, samples = kael.default_model_path(), json.load(sys.stdin)
model, tokenizer = kael.GPT.from_pretrained(folder), kael.BpeTokenizer.from_pretrained(folder)
settings = {name: samples[name] for name in ("max_tokens", "temperature", "top_k")}
texts = []
for sample in samples["samples"]:
    prompt, seed = tokenizer.encode(sample["prompt"]), sample["seed"]
    tokens = model.generate(prompt, seed=seed, stop_tokens=[tokenizer.end_of_text], **settings)
    if tokens[-1] == tokenizer.end_of_text:
        tokens.pop()
    texts.append(tokenizer.decode(tokens).decode("utf-8", "replace"))
json.dump(texts, sys.stdout)
"""


@pytest.mark.parametrize("instruction_set", ["baseline", None], ids=["baseline", "widest"])
def test_the_samples_are_what_the_weights_give(instruction_set):
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "py")}
    environment.pop("KAEL_ISA", None)
    if instruction_set is not None:
        environment["KAEL_ISA"] = instruction_set
    done = subprocess.run(
        [sys.executable, "-c", WRITE],
        input=json.dumps(SAMPLES),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env=environment,
    )
    assert json.loads(done.stdout) == [sample["text"] for sample in SAMPLES["samples"]]


def test_the_card_shows_the_samples():
    card = (FOLDER / "README.md").read_text("utf-8")
    assert len(SAMPLES["samples"]) == 3
    for sample in SAMPLES["samples"]:
        lines = f"**{sample['prompt']}**{sample['text']}".splitlines()
        assert "\n".join(f"> {line}".rstrip() for line in lines) in card
        assert f"Seed {sample['seed']}:" in card


def test_the_card_tells_the_sizes():
    config, card = kael.GPT.from_pretrained(FOLDER).config, (FOLDER / "README.md").read_text("utf-8")
    for number, what in (
        (config.layers, "layers"),
        (config.heads, "heads"),
        (config.max_positions, "positions"),
        (config.vocab_size, "tokens"),
    ):
        assert f"{number:,} {what}" in card
    assert f"--context {config.max_positions}" in card  # every position was trained
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) <= 12_000_000


@pytest.mark.skipif(
    not BOOKS.is_dir(),
    reason="the books that it was trained on, 4 MB, are no part of the project and do not lie beside it",
)
def test_its_words_occur_in_the_books(monkeypatch):
    monkeypatch.syspath_prepend(ROOT / "scripts")  # as when it is started
    script = runpy.run_path(str(ROOT / "scripts" / "make-starter-model"))
    model, tokenizer = kael.GPT.from_pretrained(FOLDER), kael.BpeTokenizer.from_pretrained(FOLDER)
    assert script["share_of_known_words"](model, tokenizer, sorted(BOOKS.glob("*.txt"))) >= 0.95
