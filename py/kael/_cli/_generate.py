"""Continue a prompt; the text appears as it is generated.

Only the continuation goes to standard output. Ctrl-C ends it early.
"""

from __future__ import annotations

import argparse
import secrets
import sys

import kael
from kael import _early, _generation
from kael._cli import _arguments
from kael._sampling import Sampling


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _arguments.add_data(parser)
    prompt = parser.add_mutually_exclusive_group()
    prompt.add_argument(
        "text", nargs="?", metavar="TEXT", help="what to continue (default, or with -: standard input)"
    )
    prompt.add_argument("--prompt", metavar="TEXT", help="the same; TEXT may begin with a dash")
    parser.add_argument(
        "--max-tokens",
        metavar="N",
        type=_arguments.whole_number(0, _generation.MAX_TOKENS),
        default=64,
        help="how many tokens at most (default: 64); once prompt and text fill the model's context, each one "
        "takes as long as reading a whole context",
    )
    parser.add_argument(
        "--temperature",
        metavar="T",
        type=_arguments.temperature,
        default=0.8,
        help="0 always takes the most likely token; else at least 0.001 (default: 0.8)",
    )
    parser.add_argument(
        "--top-k",
        metavar="K",
        type=_arguments.whole_number(0, 2**63 - 1),
        default=40,
        help="draw from the K most likely tokens; 0: from all (default: 40)",
    )
    parser.add_argument(
        "--top-p",
        metavar="P",
        type=_arguments.number(0, 1),
        default=1.0,
        help="of those, from the fewest whose probabilities sum to P (default: 1, all)",
    )
    parser.add_argument(
        "--min-p",
        metavar="P",
        type=_arguments.number(0, 1),
        default=0.0,
        help="of those, from the ones at least P times as likely as the most likely (default: 0, all)",
    )
    parser.add_argument(
        "--repetition-penalty",
        metavar="X",
        type=_arguments.number(0.01, 100),
        default=1.0,
        help="above 1: makes tokens of the prompt and the text less likely (default: 1)",
    )
    parser.add_argument(
        "--presence-penalty",
        metavar="X",
        type=_arguments.number(-100, 100),
        default=0.0,
        help="taken from the logits of tokens that were generated (default: 0)",
    )
    parser.add_argument(
        "--frequency-penalty",
        metavar="X",
        type=_arguments.number(-100, 100),
        default=0.0,
        help="taken from them as often as they were generated (default: 0)",
    )
    parser.add_argument(
        "--seed",
        metavar="N",
        type=_arguments.whole_number(0, 2**64 - 1),
        help="the same seed gives the same text (default: a fresh one each time)",
    )
    parser.add_argument(
        "--stop",
        metavar="TEXT",
        action="append",
        type=_stop_string,
        default=[],
        help="stop before TEXT, which is not printed; may be given several times",
    )
    parser.add_argument("--stop-at-eos", action="store_true", help="stop at <|endoftext|>")
    parser.add_argument(
        "--device", default="cpu", help="where to compute; this build has no cuda (default: cpu)"
    )
    _arguments.add_dtype(parser)
    _arguments.add_threads(parser)
    parser.add_argument(
        "--speculate",
        metavar="N",
        type=_arguments.whole_number(0, _generation.MAX_GUESSES),
        default=0,
        help="guess up to N tokens from what followed earlier in the text and try them at once: the same "
        "text, sooner where it repeats itself; 8 is a good N (default: 0)",
    )
    parser.add_argument(
        "--stats", action="store_true", help="speeds on standard error, also where that is no terminal"
    )


def run(options: argparse.Namespace) -> int:
    _arguments.apply_threads(options)
    folder = _arguments.data_folder(options)
    model = kael.GPT.from_pretrained(folder, device=options.device, dtype=options.dtype)
    tokenizer = kael.BpeTokenizer.from_pretrained(folder)
    _arguments.require_known_tokens(folder, tokenizer.vocabulary_size, model.config.vocab_size)
    text = _arguments.text_or_input(_prompt(options), "prompt")
    if not text:
        raise kael.Error("the prompt is empty, expected some text to continue")
    prompt = tokenizer.encode(text)
    request = _generation.Request(
        prompt,
        options.max_tokens,
        Sampling(
            repetition_penalty=options.repetition_penalty,
            presence_penalty=options.presence_penalty,
            frequency_penalty=options.frequency_penalty,
            temperature=options.temperature,
            top_k=options.top_k,
            top_p=options.top_p,
            min_p=options.min_p,
        ),
        options.seed if options.seed is not None else secrets.randbits(64),
        stop_tokens=_stop_tokens(options, tokenizer, folder),
        speculate=options.speculate,
    )
    printer = _Printer(kael.TextStream(tokenizer, options.stop))
    try:
        with _early.signals_interrupt():
            generation = model._generate(request, printer.token)
    except KeyboardInterrupt:
        printer.end()
        return 0
    printer.end()
    if sys.stderr is not None and (options.stats or sys.stderr.isatty()):
        reason = "stop" if printer.stopped else generation.finish_reason
        print(_summary(len(prompt), generation, reason), file=sys.stderr)
    return 0


def _prompt(options: argparse.Namespace) -> str | None:
    prompt: str | None = options.text if options.text is not None else options.prompt
    return prompt


def _stop_tokens(options: argparse.Namespace, tokenizer: kael.BpeTokenizer, folder: object) -> list[int]:
    if not options.stop_at_eos:
        return []
    if tokenizer.end_of_text is None:
        raise kael.Error(f"--stop-at-eos needs a vocabulary with <|endoftext|>, {folder} has none")
    return [tokenizer.end_of_text]


def _stop_string(text: str) -> str:
    """A type for argparse."""
    if not text:
        raise argparse.ArgumentTypeError("expected a text, not ''")
    return text


class _Printer:
    """Writes text to standard output as soon as it is certain."""

    def __init__(self, stream: kael.TextStream) -> None:
        self._stream = stream
        # A terminal that lacks a character shows a question mark; the run goes on.
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]

    def token(self, token: int) -> bool:
        """Whether the text goes on."""
        self._write(self._stream.feed(token))
        return not self._stream.stopped

    @property
    def stopped(self) -> bool:
        """Whether a stop string was found."""
        return self._stream.stopped

    def end(self) -> None:
        self._write(self._stream.end() + "\n")

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _summary(prompt_tokens: int, generation: kael.Generation, reason: str) -> str:
    count = len(generation.tokens)
    parts = [f"{count} token{'s' if count != 1 else ''} ({reason})"]
    if count:
        parts.append(f"first after {generation.prompt_seconds * 1000:.0f} ms ({prompt_tokens} of prompt)")
    if count > 1 and generation.decode_seconds > 0:
        parts.append(f"then {(count - 1) / generation.decode_seconds:.0f} a second")
    if generation.guessed_tokens:
        parts.append(f"{generation.guessed_tokens} of them guessed")
    parts.append(f"seed {generation.seed}")
    return "; ".join(parts)
