"""Training: its steps, its folder, and how it goes on after an interruption."""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import math
import os
import re
import resource
import signal
import subprocess
import sys

import numpy as np
import pytest
import sanitizer
from hypothesis import given, settings
from hypothesis import strategies as st

import kael
from kael import _pretrained, _replaced_file, training
from kael._cli import _memory_limit, _train
from kael.training import Evaluation, Options, Session, StepReport, Trainer, _corpus

TEXT = "".join(
    f"The {a} fox and the {b} dog met at the {c} brook.\n" for a in "abcdefg" for b in "uvw" for c in "xyz"
)
SMALL = {"batch_size": 3, "context": 8, "warmup_steps": 1, "evaluate_every": 3, "evaluation_windows": 5}


@pytest.fixture(scope="module")
def books(tmp_path_factory):
    """A folder with a text and a tokenizer for it."""
    pytest.importorskip(
        "tokenizers", reason="the package tokenizers, which trains tokenizers, is not installed"
    )
    folder = tmp_path_factory.mktemp("books")
    (folder / "text.txt").write_text(TEXT)
    training.train_tokenizer([folder / "text.txt"], folder, 300)
    return folder


def new_model(books, seed=1, positions=8, dropout=0.0):
    kael.manual_seed(seed)
    size = kael.BpeTokenizer.from_pretrained(books).vocabulary_size
    return kael.GPT(size, positions, layers=1, heads=2, dimension=8, dropout=dropout)


def new_session(books, folder, dropout=0.0, **changes):
    options = Options(**{"steps": 7, "seed": 1, **SMALL, **changes})
    model = new_model(books, dropout=dropout)
    return Session(folder, model, books, [str(books / "text.txt")], options=options)


def without_times(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return [{key: value for key, value in line.items() if key != "tokens_per_second"} for line in lines]


def written(folder):
    files = ("model.safetensors", "config.json", "vocab.json", "merges.txt")
    return {name: (folder / name).read_bytes() for name in files}


@contextlib.contextmanager
def files_of_at_most(size):
    """As on a full disk, what is longer cannot be written."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


# ---- Text


@settings(max_examples=200)
@given(st.text(st.sampled_from("ab \n\t\r\u00a0\u2028é"), max_size=60), st.integers(1, 9))
def test_a_text_is_cut_where_no_token_is(text, piece):
    tokenizer = kael.BpeTokenizer.from_pretrained(kael.default_model_path())
    before, _corpus._PIECE = _corpus._PIECE, piece
    try:
        pieces = list(_corpus._pieces(text))
    finally:
        _corpus._PIECE = before
    assert "".join(pieces) == text
    assert [token for part in pieces for token in tokenizer.encode(part)] == tokenizer.encode(text)


def test_files_are_encoded_one_after_the_other_with_an_end_of_text(tmp_path):
    tokenizer = kael.BpeTokenizer.from_pretrained(kael.default_model_path())
    (tmp_path / "a").write_bytes(b"\xef\xbb\xbfOne fox.")  # with a byte order mark
    (tmp_path / "b").write_text("Two dogs.\n")
    shares = []
    tokens = training.encode_files(tokenizer, [tmp_path / "a", str(tmp_path / "b")], shares.append)
    end = [tokenizer.end_of_text]
    assert tokens.tolist() == tokenizer.encode("One fox.") + end + tokenizer.encode("Two dogs.\n") + end
    assert tokens.dtype == np.int32
    assert shares[-1] == 1.0


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "there is no file"),
        (b"", "holds no text"),
        (b" \n\t", "holds no text"),
        (b"good\xffbad", r"is no UTF-8 text: byte 4 is 0xff; convert it"),
    ],
)
def test_a_text_that_is_none_is_named(tmp_path, content, message):
    path = tmp_path / "book.txt"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(kael.Error, match=f"book.txt.*{message}|{message}.*book.txt"):
        training.encode_files(kael.BpeTokenizer.from_pretrained(kael.default_model_path()), [path])


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_text_that_cannot_be_read_again_is_named(tmp_path, kind):
    path = tmp_path / "pipe" if kind == "pipe" else "/dev/zero"
    if kind == "pipe":
        os.mkfifo(path)
    with pytest.raises(kael.Error, match=f"{path} is a pipe or a device, expected a file"):
        training.train_tokenizer([path], tmp_path / "tokenizer")


def test_a_text_that_the_tokenizer_cannot_encode_is_named_with_the_place(tmp_path, monkeypatch):
    (tmp_path / "vocab.json").write_text('{"a": 0, "\u010a": 1}')
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    (tmp_path / "book.txt").write_text("aaa\n" * 5 + "b")
    monkeypatch.setattr(_corpus, "_PIECE", 4)
    with pytest.raises(kael.Error, match=r"book.txt cannot be encoded: .* 0x62 at offset 20 of the text"):
        training.encode_files(kael.BpeTokenizer.from_pretrained(tmp_path), [tmp_path / "book.txt"])


@pytest.mark.parametrize("share", [0, 1, -0.5, 2.0])
def test_a_share_must_be_one(share):
    with pytest.raises(kael.Error, match="validation_share is"):
        training.split_tokens(np.arange(10), share)


# ---- Tokenizers


def test_a_tokenizer_is_the_same_for_the_same_text_and_loads(books, tmp_path):
    training.train_tokenizer([books / "text.txt"], tmp_path, 300)
    for name in ("vocab.json", "merges.txt"):
        assert (tmp_path / name).read_bytes() == (books / name).read_bytes()
    tokenizer = kael.BpeTokenizer.from_pretrained(tmp_path)
    assert 257 < tokenizer.vocabulary_size <= 300
    assert tokenizer.end_of_text == tokenizer.vocabulary_size - 1
    assert tokenizer.decode(tokenizer.encode("The ¶ fox")).decode() == "The ¶ fox"


def test_a_trained_tokenizer_encodes_as_the_package_that_trained_it(books):
    import tokenizers

    theirs = tokenizers.Tokenizer(
        tokenizers.models.BPE.from_file(str(books / "vocab.json"), str(books / "merges.txt"))
    )
    theirs.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    ours = kael.BpeTokenizer.from_pretrained(books)
    for text in (TEXT, "The brook met éé\n\n  dogs!"):
        assert ours.encode(text) == theirs.encode(text).ids


def test_the_largest_vocabulary_reserves_no_memory_for_it(books, tmp_path):
    training.train_tokenizer([books / "text.txt"], tmp_path, 2**31 - 1)
    assert 257 < kael.BpeTokenizer.from_pretrained(tmp_path).vocabulary_size < 257 + len(TEXT)


def test_the_smallest_tokenizer_has_a_token_for_each_byte(books, tmp_path):
    training.train_tokenizer([books / "text.txt"], tmp_path, 257)
    tokenizer = kael.BpeTokenizer.from_pretrained(tmp_path)
    assert tokenizer.vocabulary_size == 257
    assert len(tokenizer.encode("fox é")) == 6
    with pytest.raises(kael.Error, match="vocab_size is 256, expected 257"):
        training.train_tokenizer([books / "text.txt"], tmp_path, 256)


# ---- Steps


def test_the_loss_falls(books, tmp_path):
    session = new_session(books, tmp_path, steps=60, learning_rate=3e-2, evaluate_every=60)
    news = list(session.run())
    reports = [report for report in news if isinstance(report, StepReport)]
    assert [report.step for report in reports] == list(range(1, 61))
    vocabulary = session.trainer.model.config.vocab_size
    assert reports[0].loss == pytest.approx(math.log(vocabulary), rel=0.02)
    assert reports[-1].loss < 0.6 * reports[0].loss
    assert isinstance(news[-1], Evaluation)
    assert news[-1].loss < 0.7 * reports[0].loss


def test_accumulated_batches_make_the_step_of_one_large_batch(books):
    tokens = np.array(kael.BpeTokenizer.from_pretrained(books).encode(TEXT))
    weights = []
    for batch_size, accumulate in ((6, 1), (2, 3)):
        options = Options(steps=4, seed=5, **{**SMALL, "batch_size": batch_size, "accumulate": accumulate})
        trainer = Trainer(new_model(books), tokens[100:], tokens[:100], options)
        for _ in range(4):
            trainer.step()
        weights.append(np.concatenate([p.numpy().ravel() for p in trainer.model.state_dict().values()]))
    np.testing.assert_allclose(weights[0], weights[1], atol=2e-5)


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("threads", [1, 2, 3])
def test_a_training_has_the_same_bits_for_any_number_of_threads(
    books, tmp_path, threads_restored, threads, dropout
):
    for count, folder in ((5, tmp_path / "five"), (threads, tmp_path / "other")):
        kael.set_num_threads(count)
        list(new_session(books, folder, dropout).run())
    assert written(tmp_path / "five") == written(tmp_path / "other")


@pytest.mark.parametrize("precision", ["highest", "medium"])
def test_a_training_multiplies_in_its_precision_and_leaves_that_of_the_process(
    books, tmp_path, monkeypatch, precision
):
    session = new_session(books, tmp_path / "model", matmul_precision=precision)
    seen = set()
    loss = session.trainer._loss

    def watched_loss(*given):
        seen.add(kael.get_float32_matmul_precision())
        return loss(*given)

    monkeypatch.setattr(session.trainer, "_loss", watched_loss)
    for _ in session.run():
        assert kael.get_float32_matmul_precision() == "highest"
    assert seen == {precision}
    with pytest.raises(kael.Error, match=r"'low'.*'highest'.*'medium'"):
        kael.training.Options(matmul_precision="low")


def test_a_training_with_dropout_depends_on_its_seed_and_not_on_what_else_was_drawn(books, tmp_path):
    def session(name, **changes):
        return new_session(books, tmp_path / name, 0.2, **changes)

    list(session("undisturbed").run())
    for _ in session("disturbed").run():
        kael.rand(3)
    assert written(tmp_path / "undisturbed") == written(tmp_path / "disturbed")
    list(session("reseeded", seed=2).run())
    assert written(tmp_path / "reseeded") != written(tmp_path / "undisturbed")


def test_every_window_of_the_validation_text_counts_alike(books, tmp_path):
    """Also those of a last batch that is not full."""
    losses = [
        new_session(books, tmp_path / str(size), batch_size=size).trainer.validation_loss()
        for size in (1, 3)  # of 5 windows
    ]
    assert losses[0] == pytest.approx(losses[1], rel=1e-6)


def test_gradients_that_are_not_finite_change_no_weight(books, tmp_path, monkeypatch):
    trainer = new_session(books, tmp_path).trainer
    before = {name: weight.numpy().copy() for name, weight in trainer.model.state_dict().items()}
    monkeypatch.setattr(kael.optim, "clip_grad_norm_", lambda *_: math.inf)
    with pytest.raises(kael.Error, match=r"the loss of step 1 is \S+ and its gradients have the norm inf"):
        trainer.step()
    for name, weight in trainer.model.state_dict().items():
        np.testing.assert_array_equal(weight.numpy(), before[name])


def test_a_step_with_dropout_leaves_the_stream_of_the_process_where_it_was(books, tmp_path):
    trainer = new_session(books, tmp_path, 0.2).trainer
    before = kael.random_state()
    trainer.step()
    assert kael.random_state() == before


def test_dropout_leaves_the_loss_on_the_validation_text_as_it_is(books, tmp_path):
    sessions = [new_session(books, tmp_path / str(dropout), dropout) for dropout in (0.0, 0.5)]
    without, with_dropout = (session.trainer for session in sessions)
    assert with_dropout.validation_loss() == without.validation_loss()
    assert with_dropout.step().loss != without.step().loss


@pytest.mark.parametrize(
    ("evaluate_every", "message"),
    [(50, r"the loss of step \d+ is \S+ and"), (1, "after step . the loss on the validation text")],
)
def test_a_loss_that_is_not_finite_ends_it(books, tmp_path, evaluate_every, message):
    changes = {"learning_rate": 900.0, "clip_norm": 0.0, "warmup_steps": 0, "evaluate_every": evaluate_every}
    session = new_session(books, tmp_path, steps=50, **changes)
    with pytest.raises(kael.Error, match=f"{message}.*: try a lower learning rate or a longer warm-up"):
        list(session.run())
    checkpoint = tmp_path / "training" / "checkpoint.safetensors"
    if checkpoint.exists():
        Session.resume(tmp_path)


def test_a_model_too_short_for_the_context_is_named(books, tmp_path):
    with pytest.raises(kael.Error, match="context is 9, expected at most the model's 8 positions"):
        new_session(books, tmp_path, context=9)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps is 0"),
        ({"batch_size": 2**31}, "batch_size is 2147483648"),
        ({"learning_rate": -1.0}, "learning_rate is -1, expected 0 to 1000"),
        ({"beta_2": 1.5}, "beta_2 is 1.5"),
        ({"seed": -1}, "seed is -1"),
        ({"warmup_steps": 1000}, "warmup_steps is 1000, expected less than the 1000 steps"),
    ],
)
def test_options_that_make_no_sense_are_named(changes, message):
    with pytest.raises(kael.Error, match=message):
        Options(**changes)


# ---- The folder


def test_the_folder_holds_the_best_model(books, tmp_path):
    session = new_session(books, tmp_path, steps=12, learning_rate=0.3, evaluate_every=1, final_share=1.0)
    looks = [news for news in session.run() if isinstance(news, Evaluation)]
    best = min(looks, key=lambda look: look.loss)
    assert [look.is_best for look in looks] == [
        look.loss < min([earlier.loss for earlier in looks[:place]], default=math.inf)
        for place, look in enumerate(looks)
    ]
    model = kael.GPT.from_pretrained(tmp_path)
    tokens = training.encode_files(kael.BpeTokenizer.from_pretrained(books), [books / "text.txt"])
    _, validation = training.split_tokens(tokens, 0.1)
    again = Trainer(model, tokens, validation, Options(**SMALL))
    assert again.validation_loss() == best.loss


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_the_model_is_written_in_the_dtype_that_was_wished(books, tmp_path, dtype):
    model = new_model(books)
    model.save_pretrained(tmp_path, dtype, end_of_text=7)
    file = kael.load_safetensors(tmp_path / "model.safetensors")
    assert {tensor.dtype for tensor in file.values()} == {dtype}
    config = json.loads((tmp_path / "config.json").read_text())
    assert (config["eos_token_id"], config["n_embd"]) == (7, 8)
    assert kael.GPT.from_pretrained(tmp_path).config == model.config


def test_a_model_that_cannot_be_written_leaves_no_folder(books, tmp_path):
    model = new_model(books)
    (tmp_path / "there").mkdir()
    with files_of_at_most(2000):
        for folder in (tmp_path / "new" / "in" / "others", tmp_path / "there"):
            with pytest.raises(kael.Error, match="File too large"):
                model.save_pretrained(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]  # which nobody made just now
    assert not list((tmp_path / "there").iterdir())


def test_a_model_that_is_written_in_part_keeps_its_folder(books, tmp_path, monkeypatch):
    def fail(*_):
        raise kael.Error("cannot write config.json", kael.ErrorCode.IO_ERROR)

    monkeypatch.setattr(_pretrained, "replace_file", fail)
    with pytest.raises(kael.Error, match=r"cannot write config.json"):
        new_model(books).save_pretrained(tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["model.safetensors"]


def test_a_tokenizer_that_cannot_be_written_leaves_no_folder(books, tmp_path):
    with files_of_at_most(100), pytest.raises(kael.Error, match=r"cannot write .*vocab.json: File too large"):
        training.train_tokenizer([books / "text.txt"], tmp_path / "new", 300)
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("stop", range(1, 8))
def test_a_resumed_session_writes_what_an_uninterrupted_one_does(books, tmp_path, stop, dropout):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    list(new_session(books, whole, dropout).run())
    first = new_session(books, parts, dropout)
    for news in first.run():
        if isinstance(news, StepReport) and news.step == stop:
            break
    first.save()
    second = Session.resume(parts)
    assert second.steps_done == stop
    list(second.run())
    assert written(whole) == written(parts)
    metrics = "training/metrics.jsonl"
    assert without_times(parts / metrics) == without_times(whole / metrics)


def test_a_look_that_its_checkpoint_does_not_know_is_written_once(books, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    list(new_session(books, whole).run())
    first = new_session(books, killed)
    for news in first.run():
        if isinstance(news, StepReport) and news.step == 3:
            first.save()
            before = first._checkpoint.read_bytes()
        if isinstance(news, Evaluation):
            first._checkpoint.write_bytes(before)  # as if it had been killed before it wrote the next one
            break
    list(Session.resume(killed).run())
    metrics = "training/metrics.jsonl"
    assert without_times(killed / metrics) == without_times(whole / metrics)


def test_what_a_killed_process_wrote_after_its_checkpoint_is_written_again(books, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    list(new_session(books, whole).run())
    for news in new_session(books, killed).run():
        if isinstance(news, StepReport) and news.step == 5:
            break  # two steps after the last checkpoint
    with open(killed / "training" / "metrics.jsonl", "a") as file:
        file.write('{"step": 6, "lo')
    list(Session.resume(killed).run())
    assert written(whole) == written(killed)
    metrics = "training/metrics.jsonl"
    assert without_times(whole / metrics) == without_times(killed / metrics)


def test_a_training_ends_when_it_no_longer_improves(books, tmp_path):
    session = new_session(books, tmp_path, steps=40, learning_rate=0.0, evaluate_every=1, patience=3)
    looks = [news for news in session.run() if isinstance(news, Evaluation)]
    assert [look.is_best for look in looks] == [True, False, False, False]
    assert list(Session.resume(tmp_path).run()) == []


def test_a_second_training_does_not_overwrite_the_first(books, tmp_path):
    list(new_session(books, tmp_path).run())
    with pytest.raises(kael.Error, match=r"holds a training already: go on with it \(--resume\), or give"):
        new_session(books, tmp_path)


def test_a_model_that_is_there_is_not_overwritten(books, tmp_path):
    new_model(books).save_pretrained(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()
    with pytest.raises(kael.Error, match="holds a model already, which would be overwritten"):
        new_session(books, tmp_path)
    with pytest.raises(kael.Error, match="holds a model already"):
        Session.require_new(tmp_path)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert not (tmp_path / "vocab.json").exists()


def test_a_training_that_was_killed_before_its_first_look_is_resumed_from_the_beginning(books, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    list(new_session(books, whole, 0.2).run())
    for news in new_session(books, killed, 0.2).run():
        if news.step == 2:
            break
    session = Session.resume(killed)
    assert session.steps_done == 0
    list(session.run())
    assert written(whole) == written(killed)
    assert without_times(killed / "training/metrics.jsonl") == without_times(whole / "training/metrics.jsonl")


def test_a_stop_between_batches_drops_the_step(books, tmp_path):
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    list(new_session(books, whole, accumulate=4).run())
    session, asked = new_session(books, parts, accumulate=4), iter(range(100))
    news = list(session.run(lambda: next(asked) >= 10))
    assert [report.step for report in news] == [1, 2]
    assert next(asked) < 13  # it was not asked for a whole step more
    resumed = Session.resume(parts)
    assert resumed.steps_done == 2
    list(resumed.run())
    assert written(whole) == written(parts)


def test_what_a_killed_process_left_is_removed(books, tmp_path):
    new_session(books, tmp_path).save()
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left, kept = [], []
    for folder in (tmp_path, tmp_path / "training"):
        left += [folder / f".kael-{dead.pid}-0.tmp", folder / f".kael-{dead.pid}-ab_c1.tmp"]
        kept += [folder / f".kael-{os.getpid()}-0.tmp", folder / ".kael-1-0.tmp", folder / ".kael-0-x-y.tmp"]
    for path in left + kept:
        path.write_bytes(b"half")
    Session.resume(tmp_path)
    assert not any(path.exists() for path in left)
    assert all(path.exists() for path in kept)


def test_a_file_is_written_beside_its_name_under_the_id_of_the_process(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(os, "fsync", lambda _: seen.extend(path.name for path in tmp_path.iterdir()))
    _replaced_file.replace_file(str(tmp_path / "file"), b"new")
    assert len(seen) == 1
    assert seen[0].startswith(f".kael-{os.getpid()}-")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize(
    ("module", "name", "message"),
    [
        ("os", "open", "cannot open .*training: Input/output error"),
        ("fcntl", "flock", "cannot lock .*training: Input/output error"),
    ],
)
def test_a_folder_that_cannot_be_locked_is_named(books, tmp_path, monkeypatch, module, name, message):
    new_session(books, tmp_path).save()

    def fail(*_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(sys.modules[module], name, fail)
    with pytest.raises(kael.Error, match=message) as caught:
        Session.resume(tmp_path)
    assert caught.value.code == kael.ErrorCode.IO_ERROR


def test_a_folder_that_cannot_be_made_is_named(books, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(kael.Error, match=r"cannot make the folder .*file/training: Not a directory"):
        new_session(books, tmp_path / "file")


def test_one_session_at_a_time_runs_in_a_folder(books, tmp_path):
    session = new_session(books, tmp_path)
    session.save()
    news = session.run()
    next(news)
    for another in (Session.resume, Session.require_new, lambda folder: new_session(books, folder)):
        with pytest.raises(kael.Error, match="another training is running in"):
            another(tmp_path)
    news.close()
    Session.resume(tmp_path)


def test_a_changed_text_cannot_be_gone_on_with(books, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text(TEXT)
    folder = tmp_path / "model"
    session = Session(folder, new_model(books), books, [str(text)], options=Options(steps=5, **SMALL))
    session.save()
    text.write_text(TEXT + "More.\n")
    with pytest.raises(kael.Error, match="the texts or the tokenizer have changed since the training"):
        Session.resume(folder)


def change_progress(path, **changes):
    file = kael.load_safetensors(path)
    progress = {**json.loads(file.metadata["progress"]), **changes}
    kael.save_safetensors(path, dict(file), {**file.metadata, "progress": json.dumps(progress)})


def change_facts(path, **changes):
    facts = json.loads(kael.load_safetensors(path).metadata["progress"])["facts"]
    change_progress(path, facts={**facts, **changes})


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda path: path.unlink(), "holds no training to resume"),
        (lambda path: path.write_bytes(path.read_bytes()[:100]), "checkpoint.safetensors"),
        (
            lambda path: kael.save_safetensors(path, {}),
            r"no checkpoint of a session: it has no \['progress'\]",
        ),
        (
            lambda path: kael.save_safetensors(
                path, {}, {"progress": '{"facts": {}, "best_loss": 1, "looks_since_best": 0, "looked_at": 0}'}
            ),
            "no checkpoint of a session: KeyError: 'dtype'",
        ),
        (lambda path: change_progress(path, steps_done=-1), "steps_done is -1, expected 0 to 7"),
        (lambda path: change_progress(path, steps_done=1e999), "TypeError: steps_done must be an integer"),
        (lambda path: change_progress(path, looked_at=8), "looked_at is 8, expected 0 to 0"),
        (lambda path: change_progress(path, best_loss="low"), "TypeError: best_loss must be a number"),
        (lambda path: change_facts(path, tokens=None), "the texts or the tokenizer have changed"),
        (lambda path: change_facts(path, texts=["a\0b"]), "cannot be a path"),
        (lambda path: change_facts(path, texts=7), "TypeError"),
        (lambda path: change_facts(path, model=[]), "TypeError"),
        (lambda path: change_facts(path, validation_share="half"), "TypeError: validation_share"),
        (lambda path: change_facts(path, dtype="int8"), "dtype is 'int8'"),
    ],
)
def test_a_damaged_checkpoint_is_named(books, tmp_path, damage, message):
    session = new_session(books, tmp_path)
    session.save()
    damage(tmp_path / "training" / "checkpoint.safetensors")
    with pytest.raises(kael.Error, match=message):
        Session.resume(tmp_path)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("model.safetensors", lambda path: path.unlink()),
        ("model.safetensors", lambda path: os.truncate(path, 1000)),
        ("config.json", lambda path: path.write_text("{")),
    ],
)
def test_a_training_whose_best_model_is_lost_says_so_and_does_not_go_on(books, tmp_path, name, damage):
    list(new_session(books, tmp_path, steps=4, evaluate_every=2).run())
    damage(tmp_path / name)
    checkpoint = tmp_path / "training" / "checkpoint.safetensors"
    before = checkpoint.read_bytes()
    with pytest.raises(kael.Error, match="is lost, put it back from a copy"):
        Session.resume(tmp_path)
    assert checkpoint.read_bytes() == before


def test_a_full_disk_leaves_the_last_checkpoint(books, tmp_path):
    session = new_session(books, tmp_path)
    session.save()
    checkpoint = tmp_path / "training" / "checkpoint.safetensors"
    before = checkpoint.read_bytes()
    with files_of_at_most(2000), pytest.raises(kael.Error) as caught:
        list(session.run())
    assert caught.value.code == kael.ErrorCode.IO_ERROR
    assert checkpoint.read_bytes() == before
    assert sorted(path.name for path in checkpoint.parent.iterdir()) == [
        "checkpoint.safetensors",
        "metrics.jsonl",
    ]
    list(Session.resume(tmp_path).run())


def test_a_best_model_that_could_not_be_written_is_written_when_the_training_goes_on(
    books, tmp_path, monkeypatch
):
    list(new_session(books, tmp_path / "whole").run())
    session = new_session(books, tmp_path / "again")
    save = kael.GPT.save_pretrained

    def fail_at_the_end(model, *arguments):
        if session.steps_done == session.options.steps:
            raise kael.Error("cannot write model.safetensors", kael.ErrorCode.IO_ERROR)
        save(model, *arguments)

    with monkeypatch.context() as patched:
        patched.setattr(kael.GPT, "save_pretrained", fail_at_the_end)
        with pytest.raises(kael.Error, match=r"cannot write model\.safetensors"):
            list(session.run())
    list(session.run())
    assert written(tmp_path / "again") == written(tmp_path / "whole")


def test_the_losses_are_drawn(books, tmp_path):
    pytest.importorskip("matplotlib", reason="the package matplotlib, which draws, is not installed")
    session = new_session(books, tmp_path)
    list(session.run())
    training.draw_losses(session.metrics_path, tmp_path / "loss.svg")
    training.draw_losses(session.metrics_path, tmp_path / "loss.png")
    assert (tmp_path / "loss.svg").read_text().rstrip().endswith("</svg>")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


# ---- Fine-tuning


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("trained/slm4096", "Q: What is a tensor?\nA: A box of numbers. We optimized for boxes.\n"),
        ("trained/llmviz-sort", "CABABCABC"),
        ("checkpoints/gpt2-bytes", "The fox and the dog met at the brook.\n"),
    ],
)
def test_a_checkpoint_of_others_is_fine_tuned_and_keeps_its_tokenizer(shared, tmp_path, name, text):
    pytest.importorskip("tqdm", reason="the package tqdm, which shows the progress, is not installed")
    base = shared / "data" / name
    (tmp_path / "text.txt").write_text(text * 30)
    steps = ("--steps", 6, "--evaluate-every", 1, "--batch-size", 4, "--learning-rate", 1e-3)
    run("train", "--from", base, "--to", tmp_path / "x", "--text", tmp_path / "text.txt", *steps)
    metrics = training.read_metrics(tmp_path / "x" / "training" / "metrics.jsonl")
    looks = [line["validation_loss"] for line in metrics if "validation_loss" in line]
    assert min(looks) < looks[0]
    tuned = kael.GPT.from_pretrained(tmp_path / "x")
    assert tuned.config == kael.GPT.from_pretrained(base).config
    for file in ("vocab.json", "merges.txt"):
        assert (tmp_path / "x" / file).read_bytes() == (base / file).read_bytes()


def test_a_checkpoint_without_a_tokenizer_is_named(shared, tmp_path):
    base = shared / "data" / "trained" / "capp-gpt"
    (tmp_path / "text.txt").write_text(TEXT)
    arguments = ("--from", base, "--to", tmp_path / "x", "--text", tmp_path / "text.txt")
    assert f"cannot read {base}/vocab.json" in run("train", *arguments, code=1)


# ---- Exchange with other programs


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"tie_word_embeddings": False},
        {"activation": "gelu_erf", "inner_dimension": 48, "scale_attention_by_inverse_layer": True},
        {"activation": "relu", "scale_attention": False},
    ],
)
def test_a_saved_model_is_that_of_transformers_and_the_other_way_round(tmp_path, changes):
    transformers = pytest.importorskip(
        "transformers", reason="transformers, the oracle of this test, is not installed"
    )
    torch = pytest.importorskip("torch", reason="PyTorch, which transformers needs, is not installed")
    kael.manual_seed(3)
    ours = kael.GPT(vocab_size=61, max_positions=16, layers=2, heads=2, dimension=32, **changes)
    for parameter in ours.train().parameters():
        if len(parameter.shape) == 2:
            parameter.copy_(kael.randn(*parameter.shape) * 0.3)
    ours.save_pretrained(tmp_path / "ours")
    ids = [3, 1, 4, 1, 5, 9, 2, 6]
    expected = ours(ids).numpy()
    theirs = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "ours").eval()
    with torch.no_grad():
        np.testing.assert_allclose(theirs(torch.tensor([ids])).logits[0].numpy(), expected, atol=1e-4)
    theirs.save_pretrained(tmp_path / "theirs")
    np.testing.assert_array_equal(kael.GPT.from_pretrained(tmp_path / "theirs")(ids).numpy(), expected)


# ---- The command line


def start(*arguments):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-m", "kael", *map(str, arguments)]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )


def run(*arguments, code=0):
    process = start(*arguments)
    output, errors = process.communicate(timeout=120)
    assert process.returncode == code, errors
    if code:
        assert errors.count("\n") == 1
        assert "Traceback" not in errors
        return errors
    return output


@pytest.fixture
def quick(books):
    pytest.importorskip("tqdm", reason="the package tqdm, which shows the progress, is not installed")
    steps = ("--steps", 4, "--evaluate-every", 2, "--batch-size", 2, "--context", 8)
    sizes = ("--layers", 1, "--heads", 2, "--dimension", 8)
    return ("--text", books / "text.txt", "--vocab-size", 300, *steps, *sizes)


def test_the_command_trains_a_model_that_the_others_read(quick, tmp_path):
    text = run("train", "--to", tmp_path / "new", *quick)
    assert "4 steps of 16 tokens" in text
    assert "step 4  loss" in text
    assert run("generate", "--data", tmp_path / "new", "--prompt", "The", "--max-tokens", 5, "--seed", 1)
    assert f"ended after step 4; {tmp_path / 'new'} has the model" in text
    assert "ended after step 4; " in run("train", "--resume", tmp_path / "new")
    short = ("--steps", 2, "--context", 8, "--dropout", 0.2)
    tuned = run("train", "--to", tmp_path / "tuned", "--from", tmp_path / "new", *quick[:2], *short)
    assert "2 steps" in tuned
    assert json.loads((tmp_path / "tuned" / "config.json").read_text())["resid_pdrop"] == 0.2
    for name in ("vocab.json", "merges.txt"):
        assert (tmp_path / "tuned" / name).read_bytes() == (tmp_path / "new" / name).read_bytes()


def test_a_refused_training_leaves_the_tokenizer_of_the_one_that_is_there(quick, tmp_path):
    run("train", "--to", tmp_path / "x", *quick)
    before = written(tmp_path / "x")
    other = tmp_path / "other.txt"
    other.write_text("Pack my box with five dozen liquor jugs.\n" * 40)
    arguments = ("--text", other, *quick[2:])
    assert "holds a training already" in run("train", "--to", tmp_path / "x", *arguments, code=1)
    assert written(tmp_path / "x") == before


def test_samples_are_text_that_any_terminal_shows(quick, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    text = tmp_path / "text.txt"
    text.write_text("\x1b[31m\x07é\n" * 400)
    arguments = ("--vocab-size", 257, *quick[4:], "--steps", 40, "--learning-rate", 0.03)
    output = run("train", "--to", tmp_path / "x", "--text", text, *arguments)
    assert "\\x1b" in output
    assert output.replace("\n", "").isprintable()


def test_ctrl_c_ends_it_after_the_step_and_resume_goes_on(quick, tmp_path):
    many = [*map(str, quick)]
    many[many.index("--steps") + 1] = "100000"
    process = start("train", "--to", tmp_path / "x", *many, "--seed", 3)
    for line in process.stdout:
        if line.startswith("step 4 "):
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert "interrupted after step" in errors
    assert f"train --resume {tmp_path / 'x'} goes on" in errors
    steps = int(errors.split("after step ")[1].split()[0])
    assert Session.resume(tmp_path / "x").steps_done == steps >= 4


def test_a_killed_training_is_resumed_to_the_model_of_one_that_was_not(quick, tmp_path):
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    run("train", "--to", whole, *quick, "--dropout", 0.1)
    process = start("train", "--to", killed, *quick, "--dropout", 0.1)
    for line in process.stdout:
        if line.startswith("step 2 "):
            break
    process.kill()
    process.communicate(timeout=60)
    run("train", "--resume", killed)
    assert written(whole) == written(killed)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "{tmp}/x", "--text", "/nowhere.txt"), "there is no file /nowhere.txt"),
        (("--to", "{tmp}/x", "--text", "{text}", "--context", "100000"), "expected at least 100001"),
        (("--resume", "{tmp}/x"), "holds no training to resume"),
        (("--to", "{tmp}/x", "--text", "{text}", "--from", "/nowhere"), "/nowhere is no folder"),
        (("--to", "{tmp}/x", "--text", "{text}", "--heads", "3"), "heads"),
        (("--to", "{text}/x", "--text", "{text}"), "cannot make the folder"),
    ],
)
def test_what_a_training_cannot_do_is_named(books, tmp_path, arguments, message):
    pytest.importorskip("tqdm", reason="the package tqdm, which shows the progress, is not installed")
    names = {"tmp": tmp_path, "text": books / "text.txt"}
    assert message in run("train", *(argument.format(**names) for argument in arguments), code=1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "x"), "there is no text: give files with --text"),
        (("--resume", "x", "--dtype", "float16"), "--dtype cannot go with --resume"),
        (("--resume", "x", "--from", "y"), "--from cannot go with --resume"),
        (("--to", "x", "--text", "t", "--from", "y", "--layers", "3"), "--layers cannot go with --from"),
    ],
)
def test_arguments_that_contradict_each_other_are_wrong_ones(arguments, message):
    pytest.importorskip("tqdm", reason="the package tqdm, which shows the progress, is not installed")
    assert message in run("train", *arguments, code=2)


def test_numbers_of_the_command_are_checked(tmp_path):
    for value, message in (("much", "expected a number, not 'much'"), ("2", "expected 0 to 1, not 2")):
        process = start("train", "--to", tmp_path, "--final-share", value)
        errors = process.communicate(timeout=60)[1]
        assert process.returncode == 2
        assert message in errors


# ---- What is missing, or cannot be written


@pytest.mark.parametrize(
    ("package", "use"),
    [
        ("tokenizers", lambda folder: training.train_tokenizer([folder / "text.txt"], folder / "new")),
        ("matplotlib.figure", lambda folder: training.draw_losses(folder / "metrics", folder / "loss.svg")),
    ],
)
def test_a_package_that_is_missing_is_named_and_how_to_install_it(books, monkeypatch, package, use):
    monkeypatch.setitem(sys.modules, package, None)
    name = package.split(".")[0]
    with pytest.raises(kael.Error, match=f"needs the package {name}: pip install {name}$"):
        use(books)


def test_all_packages_that_the_command_needs_are_named_at_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with pytest.raises(kael.Error, match=r" -m pip install tqdm tokenizers matplotlib$") as caught:
        _train._Display()
    assert sys.executable in caught.value.message


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (kael.Error("no memory for 1 bytes", kael.ErrorCode.OUT_OF_MEMORY), "no memory for 1 bytes"),
        (MemoryError(), "no memory"),
    ],
)
def test_what_needs_too_much_memory_says_what_needs_less(monkeypatch, books, tmp_path, error, message):
    pytest.importorskip("tqdm", reason="the package tqdm, which shows the progress, is not installed")

    def step(*_):
        raise error

    monkeypatch.setattr(Trainer, "step", step)
    parser = argparse.ArgumentParser()
    _train.add_arguments(parser)
    arguments = ["--to", str(tmp_path / "x"), "--text", str(books / "text.txt"), "--context", "8"]
    with pytest.raises(kael.Error, match=f"{message}: a smaller --batch-size"):
        _train.run(parser.parse_args(arguments))


@sanitizer.measures_memory
def test_memory_that_is_not_there_is_refused_with_a_hint(books, tmp_path):
    pytest.importorskip("tqdm", reason="the package tqdm, which shows the progress, is not installed")
    script = (
        "import mmap, resource, sys\n"
        "from kael import _cli\n"
        "resource.setrlimit(resource.RLIMIT_DATA, (1 << 29, resource.RLIM_INFINITY))\n"
        "sys.exit(_cli.main(sys.argv[1:]))\n"
    )
    for batch in (20_000, 2**31 - 1):
        small = ("--context", "8", "--layers", "1", "--dimension", "8")
        arguments = ["--to", tmp_path / str(batch), "--text", books / "text.txt", *small]
        done = subprocess.run(
            [sys.executable, "-c", script, "train", *map(str, arguments), "--batch-size", str(batch)],
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        assert done.returncode == 1
        assert re.fullmatch(
            r"python -m kael train: no memory for .*: a smaller --batch-size .* needs less\n", done.stderr
        )


@sanitizer.measures_memory
def test_a_process_has_no_more_memory_than_is_free():
    script = (
        "import resource\n"
        "from kael._cli import _memory_limit\n"
        "with _memory_limit.limited_to_what_is_free():\n"
        "    print(resource.getrlimit(resource.RLIMIT_DATA)[0])\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
    )
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < int(done.stdout) < 2 * total


def test_a_control_group_leaves_what_it_and_those_around_it_leave(tmp_path):
    own = tmp_path / "cgroup"
    groups = tmp_path / "groups"

    def group(path, limit, current, files=0):
        (groups / path).mkdir(parents=True, exist_ok=True)
        (groups / path / "memory.max").write_text(f"{limit}\n")
        (groups / path / "memory.current").write_text(f"{current}\n")
        (groups / path / "memory.stat").write_text(f"anon 1\nactive_file {files}\ninactive_file 0\n")

    def free():
        return _memory_limit._free_in_control_groups(own, groups)

    assert free() == math.inf  # on a system without them
    own.write_text("4:memory:/of/version/1\n0::/outer/inner\n")
    assert free() == math.inf
    group("outer/inner", "max", 500)
    assert free() == math.inf
    group("outer", 1000, 700, files=200)
    assert free() == 500
    group("outer/inner", 600, 500)
    assert free() == 100
    group("outer/inner", 400, 500)
    assert free() == 0


def test_a_training_without_a_model_yet_says_how_it_goes_on(quick, tmp_path):
    run("train", "--to", tmp_path / "new", *quick)
    (tmp_path / "new" / "model.safetensors").unlink()
    line = run("generate", "--data", tmp_path / "new", "x", code=1)
    assert f"python -m kael train --resume {tmp_path / 'new'} goes on" in line


def test_files_that_cannot_be_read_or_written_are_named(books, tmp_path):
    model = new_model(books)
    (tmp_path / "file").write_text("")
    with pytest.raises(kael.Error, match=r"cannot make the folder .*file/x: Not a directory"):
        model.save_pretrained(tmp_path / "file" / "x")
    (tmp_path / "model" / "config.json").mkdir(parents=True)
    with pytest.raises(kael.Error, match=r"cannot write .*config.json: Is a directory"):
        model.save_pretrained(tmp_path / "model")
    with pytest.raises(kael.Error, match=r"cannot read .*: Is a directory"):
        training.encode_files(kael.BpeTokenizer.from_pretrained(books), [tmp_path])
    with pytest.raises(kael.Error, match=r"cannot read .*: Is a directory"):
        training.read_metrics(tmp_path)
    (tmp_path / "metrics").write_text('{"step": 1}\nnothing\n{"step": 2}\n')
    with pytest.raises(kael.Error, match=r"line 2 of .*metrics is no metrics of a training"):
        training.read_metrics(tmp_path / "metrics")


def test_a_training_without_the_package_that_draws_says_so_and_succeeds(books, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    _train._draw_losses(new_session(books, tmp_path))
    assert "no picture of the losses: drawing needs the package matplotlib" in capsys.readouterr().err


def test_a_training_goes_on_with_a_tokenizer_that_is_there(quick, books, tmp_path):
    arguments = [*quick[:2], *quick[4:], "--tokenizer", books]
    run("train", "--to", tmp_path / "x", *arguments)
    for name in ("vocab.json", "merges.txt"):
        assert (tmp_path / "x" / name).read_bytes() == (books / name).read_bytes()
    refused = run("train", "--to", tmp_path / "y", *arguments, "--vocab-size", 300, code=2)
    assert "--vocab-size cannot go with --tokenizer, which has its own" in refused


def test_a_picture_that_cannot_be_written_is_named(tmp_path):
    pytest.importorskip("matplotlib", reason="the package matplotlib, which draws, is not installed")
    (tmp_path / "metrics").write_text('{"step": 1, "loss": 2.0}\n')
    with pytest.raises(kael.Error, match=r"cannot write .*loss.svg: No such file or directory"):
        training.draw_losses(tmp_path / "metrics", tmp_path / "absent" / "loss.svg")


def test_metrics_that_cannot_be_written_end_it(books, tmp_path):
    session = new_session(books, tmp_path)
    session.metrics_path.unlink(missing_ok=True)
    session.metrics_path.mkdir()
    with pytest.raises(kael.Error, match=r"cannot write .*metrics.jsonl: Is a directory"):
        list(session.run())


def test_parts_that_do_not_fit_are_named(books, tmp_path):
    small = kael.GPT(vocab_size=5, max_positions=8, layers=1, heads=2, dimension=8)
    texts, options = [str(books / "text.txt")], Options(steps=2, **SMALL)
    with pytest.raises(kael.Error, match=r"the tokenizer has \d+ tokens, the model only 5"):
        Session(tmp_path / "a", small, books, texts, options=options)
    with pytest.raises(kael.Error, match=r"the options of a training are \[.*\], found \['steps'\]"):
        Options.from_fields({"steps": 3})
    with pytest.raises(kael.Error, match="the validation text has 1 tokens, expected at least 2"):
        Trainer(new_model(books), np.arange(50), np.arange(1), options)
    with pytest.raises(kael.Error, match=r"cannot read .*vocab.json: No such file or directory"):
        Session(tmp_path / "b", new_model(books), tmp_path, texts, options=options)
