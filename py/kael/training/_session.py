"""A training and its folder: what is written when, and how it goes on after an interruption."""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import kael
from kael import _checks
from kael._errors import Error, ErrorCode
from kael._replaced_file import remove_leftovers, replace_file
from kael.training._corpus import encode_files, split_tokens
from kael.training._metrics import read_metrics
from kael.training._options import Options
from kael.training._trainer import StepReport, Trainer

_TOKENIZER_FILES = ("vocab.json", "merges.txt")
_DTYPES = ("float32", "float16", "bfloat16")
_SAMPLE_TOKENS = 48


class Evaluation(NamedTuple):
    """A look at the validation text."""

    step: int  #: how many steps were done
    loss: float
    is_best: bool  #: the model in the folder is now that of this step
    sample: str  #: what the model writes now


class Session:
    """One training in one folder, which holds, as soon as there is a first evaluation, a model that
    :meth:`kael.GPT.from_pretrained` reads: the one with the lowest validation loss so far. Beside it lie

    - ``training/checkpoint.safetensors``: all that :meth:`resume` needs to go on, as of the beginning, the
      last evaluation or :meth:`save`;
    - ``training/metrics.jsonl``: a line for each step and each evaluation.

    Every file is written whole or not at all. A training that was interrupted at any point and resumed
    writes the same model and, times aside, the same metrics as one that was not.

    One session at a time begins, resumes or runs in a folder; another one, also of another process, is an
    error.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        model: kael.GPT,
        tokenizer_folder: str | os.PathLike[str],
        texts: list[str],
        validation_texts: list[str] | None = None,
        validation_share: float = 0.1,
        options: Options | None = None,
        dtype: str = "float32",
        progress: Callable[[float], None] | None = None,
    ) -> None:
        """Begins a training. ``texts`` are paths of files; without ``validation_texts`` the last
        ``validation_share`` of them is for validation. ``dtype`` is that of the model that is written.
        ``progress`` is told how much of the text is encoded. A folder with another training in it is an
        error, and left as it is.
        """
        self.folder = Path(folder)
        self._facts: dict[str, Any] = {
            "options": asdict(options or Options()),
            "texts": [os.path.abspath(text) for text in texts],
            "validation_texts": [os.path.abspath(text) for text in validation_texts or []],
            "validation_share": validation_share,
            "dtype": _checks.choice("dtype", dtype, _DTYPES),
            "model": {**asdict(model.config), "dropout": model.dropout},
        }
        try:
            (self.folder / "training").mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise Error(
                f"cannot make the folder {self.folder / 'training'}: {error.strerror}", ErrorCode.IO_ERROR
            ) from None
        with _one_session(self.folder):
            self._require_nothing_to_lose()
            self._remove_leftovers()
            self._copy_tokenizer(Path(tokenizer_folder))
            self._prepare(model, progress)
            replace_file(str(self.metrics_path), b"")  # one that was killed early may have left some
        self._facts["tokens"] = self._digest
        self._best = float("inf")
        self._looks_since_best = 0
        self._looked_at = 0

    @classmethod
    def resume(
        cls, folder: str | os.PathLike[str], progress: Callable[[float], None] | None = None
    ) -> Session:
        """Goes on with the training in ``folder``, from its last checkpoint and on the same texts."""
        session = cls.__new__(cls)
        session.folder = Path(folder)
        if not session._checkpoint.exists():
            raise Error(
                f"{folder} holds no training to resume: there is no {session._checkpoint}",
                ErrorCode.NOT_FOUND,
            )
        with _one_session(session.folder):
            session._remove_leftovers()
            try:
                session._restore(progress)
            except (LookupError, TypeError, ValueError) as error:
                raise _damaged(session._checkpoint, f"{type(error).__name__}: {error}") from None
            session._cut_metrics()
        return session

    def _restore(self, progress: Callable[[float], None] | None) -> None:
        self._facts = _progress_of(self._checkpoint)["facts"]
        _checks.choice("dtype", self._facts["dtype"], _DTYPES)
        self._prepare(kael.GPT(**self._facts["model"]), progress)
        if self._facts["tokens"] != self._digest:
            raise Error(
                f"the texts or the tokenizer have changed since the training in {self.folder} began: "
                f"{', '.join(self._facts['texts'])}"
            )
        saved = self._trainer.load(self._checkpoint)
        best = saved["best_loss"]
        self._best = float("inf") if best is None else _checks.number("best_loss", best)
        self._looks_since_best, self._looked_at = (
            _checks.integer(name, saved[name], 0, self.steps_done)
            for name in ("looks_since_best", "looked_at")
        )
        if math.isfinite(self._best):
            self._require_best_model()

    def _require_best_model(self) -> None:
        """Whatever else can be made again; only the folder has the model with the lowest loss."""
        try:
            kael.GPT.from_pretrained(self.folder).close()
        except Error as error:
            raise Error(
                f"the best model of the training in {self.folder} is lost, put it back from a copy or begin "
                f"a new training: {error.message}",
                error.code,
            ) from None

    @classmethod
    def require_new(cls, folder: str | os.PathLike[str]) -> None:
        """Raises :class:`kael.Error` where ``folder`` holds a training or a model, or one is being made."""
        session = cls.__new__(cls)
        session.folder = Path(folder)
        if (session.folder / "training").is_dir():
            with _one_session(session.folder):
                session._require_nothing_to_lose()
        else:
            session._require_nothing_to_lose()

    def _require_nothing_to_lose(self) -> None:
        if self._checkpoint.exists():
            raise Error(
                f"{self.folder} holds a training already: go on with it (--resume), or give another folder"
            )
        if (self.folder / "model.safetensors").exists():
            raise Error(
                f"{self.folder} holds a model already, which would be overwritten: give another folder"
            )

    @property
    def _checkpoint(self) -> Path:
        return self.folder / "training" / "checkpoint.safetensors"

    @property
    def metrics_path(self) -> Path:
        """Of the file with a line of JSON for each step and evaluation."""
        return self.folder / "training" / "metrics.jsonl"

    @property
    def steps_done(self) -> int:
        """Steps of the whole training, those before it was resumed included."""
        return self._trainer.steps_done

    @property
    def options(self) -> Options:
        """What the training was told."""
        return self._trainer.options

    @property
    def trainer(self) -> Trainer:
        """What makes the steps."""
        return self._trainer

    def _remove_leftovers(self) -> None:
        for folder in (self.folder, self.folder / "training"):
            remove_leftovers(folder)

    def _copy_tokenizer(self, source: Path) -> None:
        for name in _TOKENIZER_FILES:
            try:
                content = (source / name).read_bytes()
            except OSError as error:
                raise Error(f"cannot read {source / name}: {error.strerror}", ErrorCode.IO_ERROR) from None
            replace_file(str(self.folder / name), content)

    def _prepare(self, model: kael.GPT, progress: Callable[[float], None] | None) -> None:
        facts = self._facts
        self._tokenizer = kael.BpeTokenizer.from_pretrained(self.folder)
        if self._tokenizer.vocabulary_size > model.config.vocab_size:
            raise Error(
                f"the tokenizer has {self._tokenizer.vocabulary_size} tokens, the model only "
                f"{model.config.vocab_size}"
            )
        tokens = encode_files(self._tokenizer, facts["texts"], progress)
        if facts["validation_texts"]:
            training, validation = tokens, encode_files(self._tokenizer, facts["validation_texts"])
        else:
            training, validation = split_tokens(tokens, facts["validation_share"])
        self.training_tokens, self.validation_tokens = training.size, validation.size
        self._digest = _digest(training, validation)
        self._trainer = Trainer(model, training, validation, Options.from_fields(facts["options"]))

    def run(self, should_stop: Callable[[], bool] | None = None) -> Iterator[StepReport | Evaluation]:
        """Trains to the end, and tells of each step and each evaluation. Between two of them everything may
        be left: :meth:`save` writes a checkpoint to go on from.

        ``should_stop`` is asked between batches. Once it is true, and stays so, the training drops a step of
        which batches are missing, writes a checkpoint and returns.
        """
        stops = should_stop or (lambda: False)
        with _one_session(self.folder):
            if not self._checkpoint.exists():  # whoever is killed before the first evaluation begins here
                self.save()
            began, tokens = time.monotonic(), 0
            while not self.has_ended:
                if stops():
                    self.save()
                    return
                if self._is_look_due():
                    evaluation = self._evaluate()
                    step, loss, sample = evaluation.step, evaluation.loss, evaluation.sample
                    self._write_metrics({"step": step, "validation_loss": loss, "sample": sample})
                    self.save()
                    yield evaluation
                    continue
                report = self._trainer.step(stops)
                if report is None:
                    continue
                tokens += self._trainer.tokens_per_step
                rate = tokens / (time.monotonic() - began)
                self._write_metrics({**report._asdict(), "tokens_per_second": round(rate)})
                yield report

    @property
    def has_ended(self) -> bool:
        """Whether nothing is left to run: all steps are done and the last one was looked at, or the loss on
        the validation text no longer falls.
        """
        return self._looked_at >= self.options.steps or 0 < self.options.patience <= self._looks_since_best

    def _is_look_due(self) -> bool:
        steps, options = self.steps_done, self.options
        return self._looked_at < steps and (steps % options.evaluate_every == 0 or steps >= options.steps)

    def _evaluate(self) -> Evaluation:
        loss = self._trainer.validation_loss()
        is_best = loss < self._best
        if is_best:  # known as the best only when it is in the folder
            self._trainer.model.save_pretrained(
                self.folder, self._facts["dtype"], self._tokenizer.end_of_text
            )
            self._best, self._looks_since_best = loss, 0
        else:
            self._looks_since_best += 1
        self._looked_at = self.steps_done
        return Evaluation(self.steps_done, loss, is_best, self._sample())

    def _sample(self) -> str:
        model, seed = self._trainer.model, self.options.seed
        start = [self._tokenizer.end_of_text or 0]
        count = min(_SAMPLE_TOKENS, model.config.max_positions - 1)
        ids = model.generate(start, count, temperature=0.8, top_k=40, seed=seed)
        return self._tokenizer.decode(ids).decode("utf-8", "replace")

    def save(self) -> None:
        """Writes a checkpoint as of now."""
        best = self._best if self._best < float("inf") else None
        progress = {
            "facts": self._facts,
            "best_loss": best,
            "looks_since_best": self._looks_since_best,
            "looked_at": self._looked_at,
        }
        self._trainer.save(self._checkpoint, progress)

    def _write_metrics(self, line: Mapping[str, Any]) -> None:
        try:
            with open(self.metrics_path, "a", encoding="utf-8") as file:
                file.write(json.dumps(line) + "\n")
        except OSError as error:
            raise Error(f"cannot write {self.metrics_path}: {error.strerror}", ErrorCode.IO_ERROR) from None

    def _cut_metrics(self) -> None:
        """Leaves out what was written after the checkpoint, which will be written again."""
        kept = [
            line
            for line in read_metrics(self.metrics_path)
            if line["step"] <= (self._looked_at if "validation_loss" in line else self.steps_done)
        ]
        text = "".join(json.dumps(line) + "\n" for line in kept)
        replace_file(str(self.metrics_path), text.encode())


@contextmanager
def _one_session(folder: Path) -> Iterator[None]:
    """Inside, no other session can be in its own for the same folder. The system ends what a killed process
    held.
    """
    path = folder / "training"
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError as error:
        raise Error(f"cannot open {path}: {error.strerror}", ErrorCode.IO_ERROR) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Error(
                f"another training is running in {folder}: wait for it, or give another folder"
            ) from None
        except OSError as error:
            raise Error(f"cannot lock {path}: {error.strerror}", ErrorCode.IO_ERROR) from None
        yield
    finally:
        os.close(descriptor)


def _progress_of(checkpoint: Path) -> dict[str, Any]:
    metadata = kael.load_safetensors(checkpoint, mode="mapped").metadata
    try:
        progress = json.loads(metadata["progress"])
        missing = {"facts", "best_loss", "looks_since_best", "looked_at"} - progress.keys()
    except (LookupError, ValueError, AttributeError, RecursionError):
        missing = {"progress"}
    if missing:
        raise _damaged(checkpoint, f"it has no {sorted(missing)}")
    return dict(progress)


def _damaged(checkpoint: Path, reason: str) -> Error:
    return Error(f"{checkpoint} is no checkpoint of a session: {reason}", ErrorCode.INVALID_FILE)


def _digest(*arrays: np.ndarray) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(array.size.to_bytes(8, "little"))
        digest.update(np.ascontiguousarray(array, "<i4").tobytes())
    return digest.hexdigest()
