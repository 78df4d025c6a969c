"""Train a model on text files, or fine-tune one.

--to is a folder for the model: the one with the lowest loss on the validation text, which every other command
and the server read with --data. What a training needs to go on lies in it as well: Ctrl-C ends it after the
batch at hand, and --resume goes on, with the same result as if it had never stopped.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Any

import kael
from kael import _early, _signatures, training
from kael._cli import _arguments, _memory_limit
from kael._errors import one_line
from kael.training import Evaluation, Options, Session, StepReport

_DEFAULTS: dict[str, Any] = {field.name: field.default for field in fields(Options)}
# Where weights have been trained before, large steps would undo that.
_FINE_TUNING_RATE = 1e-4
_CONTEXT = _DEFAULTS["context"]
_NEW_MODEL = {"layers": 4, "heads": 4, "dimension": 128}
# What --resume takes from the folder.
_FIXED = (
    "text",
    "validation",
    "validation_share",
    "base",
    "tokenizer",
    "vocab_size",
    "dropout",
    "dtype",
    *_NEW_MODEL,
    *_DEFAULTS,
)
_VOCABULARY = 2048
_VALIDATION_SHARE = 0.1
_MOST = 2**31 - 1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    whole, number = _arguments.whole_number, _arguments.number
    where = parser.add_mutually_exclusive_group(required=True)
    where.add_argument("--to", metavar="DIR", type=_arguments.path, help="folder for the model")
    where.add_argument(
        "--resume", metavar="DIR", type=_arguments.path, help="go on with the training in this folder"
    )
    parser.add_argument("--text", metavar="FILE", nargs="+", type=_arguments.path, help="UTF-8 text files")
    parser.add_argument(
        "--validation",
        metavar="FILE",
        nargs="+",
        type=_arguments.path,
        help="text files to measure on (default: the last part of --text)",
    )
    parser.add_argument(
        "--validation-share",
        metavar="X",
        type=number(0.0001, 0.9),
        help=f"how much of --text is kept for that (default: {_VALIDATION_SHARE:g})",
    )
    model = parser.add_argument_group("the model")
    model.add_argument(
        "--from", dest="base", metavar="DIR", type=_arguments.path, help="fine-tune this model"
    )
    model.add_argument(
        "--tokenizer",
        metavar="DIR",
        type=_arguments.path,
        help="folder with vocab.json and merges.txt (default: one is trained on --text)",
    )
    model.add_argument(
        "--vocab-size",
        metavar="N",
        type=whole(257, _MOST),
        help=f"of a tokenizer that is trained; 257: one token for each byte (default: {_VOCABULARY})",
    )
    for name, value in _NEW_MODEL.items():
        model.add_argument(
            f"--{name}", metavar="N", type=whole(1, 1 << 16), help=f"of a new model (default: {value})"
        )
    model.add_argument(
        "--dropout",
        metavar="X",
        type=number(0, 0.99),
        help="the probability at which elements are left out in training, against overfitting (default: 0)",
    )
    model.add_argument(
        "--dtype",
        choices=("float32", "float16", "bfloat16"),
        help="of the weights that are written (default: float32)",
    )
    steps = parser.add_argument_group("the steps")
    exceptions = {
        "learning-rate": f", with --from {_FINE_TUNING_RATE:g}",
        "context": ", with --from at most the positions of its model",
        "warmup-steps": ", at most a tenth of the steps",
    }
    for name, kind, what in (
        ("steps", whole(1, _MOST), "how many"),
        ("batch-size", whole(1, _MOST), "windows of text that go through the model at once"),
        ("accumulate", whole(1, _MOST), "batches whose gradients make one step"),
        ("context", whole(1, _MOST), "tokens to a window"),
        ("learning-rate", number(0, 1000), "the highest"),
        ("warmup-steps", whole(0, _MOST), "steps in which it rises to that"),
        ("final-share", number(0, 1), "of it, at the end of a cosine"),
        ("weight-decay", number(0, 1000), "of matrices"),
        ("clip-norm", number(0, 1e30), "gradients with a larger norm are scaled to it; 0: they are not"),
        ("evaluate-every", whole(1, _MOST), "steps between two looks at the validation text"),
        ("evaluation-windows", whole(1, _MOST), "windows of it that are looked at"),
        ("patience", whole(0, _MOST), "end after as many looks without improvement; 0: do not"),
        ("seed", whole(0, 2**64 - 1), "of new weights, of the order of the text and of dropout"),
    ):
        default = _DEFAULTS[name.replace("-", "_")]
        metavar = "N" if isinstance(default, int) else "X"
        extra = exceptions.get(name, "")
        steps.add_argument(
            f"--{name}", metavar=metavar, type=kind, help=f"{what} (default: {default:g}{extra})"
        )
    steps.add_argument(
        "--matmul-precision",
        choices=_signatures.MATMUL_PRECISIONS,
        help="of matrix products: highest is float32; medium is bfloat16 with float32 sums, about one and a "
        "half times as fast where the processor has instructions for it (default: highest)",
    )
    _arguments.add_threads(parser)


def run(options: argparse.Namespace) -> int:
    _arguments.apply_threads(options)
    try:
        with _memory_limit.limited_to_what_is_free(), _Display() as display:
            session = _session(options, display)
            display.begin(session)
            with _early.signals_request() as stop:
                for news in session.run(lambda: bool(stop)):
                    display.show(news)
    except MemoryError:
        raise _out_of_memory("no memory") from None
    except kael.Error as error:
        if error.code != kael.ErrorCode.OUT_OF_MEMORY:
            raise
        raise _out_of_memory(error.message) from None
    _draw_losses(session)
    if session.has_ended:
        print(
            f"ended after step {session.steps_done}; {session.folder} has the model of the lowest validation "
            f'loss: python -m kael generate --data {shlex.quote(str(session.folder))} "Once upon a time"'
        )
    else:
        print(
            f"interrupted after step {session.steps_done} of {session.options.steps}; "
            f"python -m kael train --resume {shlex.quote(str(session.folder))} goes on",
            file=sys.stderr,
        )
    return 0


def _out_of_memory(message: str) -> kael.Error:
    hint = "a smaller --batch-size (with --accumulate) or --context needs less"
    return kael.Error(f"{message}: {hint}", kael.ErrorCode.OUT_OF_MEMORY)


def _session(options: argparse.Namespace, display: _Display) -> Session:
    if options.resume is not None:
        _refuse(
            options,
            _FIXED,
            "cannot go with --resume, which goes on as the training began; --from trains a model further",
        )
        return Session.resume(options.resume, display.encoding)
    if not options.text:
        options.parser.error("there is no text: give files with --text")
    if options.base is not None:
        model, tokenizer = _base_model(options), options.base
        chosen = _training_options(
            options, learning_rate=_FINE_TUNING_RATE, context=min(_CONTEXT, model.config.max_positions)
        )
    else:
        chosen = _training_options(options)
        tokenizer = _tokenizer_folder(options)
        model = _new_model(options, chosen, tokenizer)
    model.dropout = options.dropout or 0.0
    texts, validation = ([str(path) for path in paths or []] for paths in (options.text, options.validation))
    return Session(
        options.to,
        model,
        tokenizer,
        texts,
        validation,
        _VALIDATION_SHARE if options.validation_share is None else options.validation_share,
        chosen,
        options.dtype or "float32",
        display.encoding,
    )


def _refuse(options: argparse.Namespace, names: Iterable[str], reason: str) -> None:
    for name in names:
        if getattr(options, name, None) is not None:
            shown = "from" if name == "base" else name.replace("_", "-")
            options.parser.error(f"--{shown} {reason}")


def _training_options(options: argparse.Namespace, **defaults: Any) -> Options:
    given = {name: getattr(options, name, None) for name in _DEFAULTS}
    chosen = {**defaults, **{name: value for name, value in given.items() if value is not None}}
    steps = chosen.get("steps", _DEFAULTS["steps"])
    chosen.setdefault("warmup_steps", min(_DEFAULTS["warmup_steps"], steps // 10))
    return Options(**chosen)


def _base_model(options: argparse.Namespace) -> kael.GPT:
    _refuse(
        options, ("tokenizer", "vocab_size", *_NEW_MODEL), "cannot go with --from, whose model has its own"
    )
    return kael.GPT.from_pretrained(options.base)


def _tokenizer_folder(options: argparse.Namespace) -> Path:
    if options.tokenizer is not None:
        _refuse(options, ("vocab_size",), "cannot go with --tokenizer, which has its own")
        return Path(options.tokenizer)
    Session.require_new(options.to)  # whose tokenizer must stay
    training.train_tokenizer(options.text, options.to, options.vocab_size or _VOCABULARY)
    return Path(options.to)


def _new_model(options: argparse.Namespace, chosen: Options, tokenizer: Path) -> kael.GPT:
    sizes: dict[str, Any] = {name: getattr(options, name) or default for name, default in _NEW_MODEL.items()}
    kael.manual_seed(chosen.seed)
    return kael.GPT(
        vocab_size=kael.BpeTokenizer.from_pretrained(tokenizer).vocabulary_size,
        max_positions=chosen.context,
        **sizes,
    )


class _Display:
    """A line for each evaluation on standard output; on a terminal a bar below them."""

    def __init__(self) -> None:
        try:
            from tqdm import tqdm
        except ImportError:
            raise kael.Error(
                "training needs the packages tqdm and tokenizers, and matplotlib to draw the losses: "
                f"{sys.executable} -m pip install tqdm tokenizers matplotlib",
                kael.ErrorCode.UNSUPPORTED,
            ) from None
        self._tqdm: Any = tqdm
        self._bar: Any = None
        # A terminal that lacks a character of a sample shows a question mark; the training goes on.
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]

    def __enter__(self) -> _Display:
        return self

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def encoding(self, share: float) -> None:
        """Tells how much of the text is encoded."""
        if self._bar is None:
            self._bar = self._tqdm(
                total=1.0, desc="encoding", bar_format="{desc} {percentage:3.0f}% |{bar}|", disable=None
            )
        self._bar.update(share - self._bar.n)

    def begin(self, session: Session) -> None:
        """Says what is trained on what."""
        if self._bar is not None:
            self._bar.close()
        model, options = session.trainer.model, session.options
        print(
            f"{model.parameter_count:,} parameters, {session.training_tokens:,} tokens to train on and "
            f"{session.validation_tokens:,} to measure on; {options.steps} steps of "
            f"{session.trainer.tokens_per_step:,} tokens, "
            f"{_share_of_text(options.steps * session.trainer.epochs_per_step)}",
            flush=True,
        )
        per_step = session.trainer.tokens_per_step
        self._bar = self._tqdm(
            total=options.steps * per_step,
            initial=session.steps_done * per_step,
            unit=" tokens",
            unit_scale=True,
            disable=None,
            dynamic_ncols=True,
        )
        self._per_step = per_step
        self._last: StepReport | None = None

    def show(self, news: StepReport | Evaluation) -> None:
        """Tells of a step, or of a look at the validation text."""
        if isinstance(news, StepReport):
            self._bar.set_description_str(f"loss {news.loss:.3f}", refresh=False)
            self._bar.update(self._per_step)
            self._last = news
            return
        sample = one_line(" ".join(news.sample.split()))
        loss = f"loss {self._last.loss:.4f}  " if self._last is not None else ""
        line = f"step {news.step}  {loss}validation {news.loss:.4f}"
        best = "" if news.is_best else "  (no better)"
        with self._above_the_bar():
            print(f"{line}{best}\n    {sample}", flush=True)

    @contextmanager
    def _above_the_bar(self) -> Iterator[None]:
        self._bar.clear()
        try:
            yield
        finally:
            self._bar.refresh()


def _share_of_text(epochs: float) -> str:
    if epochs >= 1.0:
        return f"{epochs:,.1f} times the text"
    return f"{epochs:.0%} of the text" if epochs >= 0.01 else "less than 1% of the text"


def _draw_losses(session: Session) -> None:
    try:
        training.draw_losses(session.metrics_path, session.folder / "training" / "loss.svg")
    except kael.Error as error:
        if error.code != kael.ErrorCode.UNSUPPORTED:
            raise
        print(f"no picture of the losses: {error.message}", file=sys.stderr)
