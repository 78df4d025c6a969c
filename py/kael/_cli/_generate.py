"""Continue a prompt; the text appears as it is generated.

Only the continuation goes to standard output. Ctrl-C ends it early.
"""

from __future__ import annotations

import argparse
import codecs
import secrets
import sys

import kael
from kael import _early, _generation
from kael._cli import _arguments


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
        "--seed",
        metavar="N",
        type=_arguments.whole_number(0, 2**64 - 1),
        help="the same seed gives the same text (default: a fresh one each time)",
    )
    parser.add_argument("--stop-at-eos", action="store_true", help="stop at <|endoftext|>")
    parser.add_argument(
        "--device", default="cpu", help="where to compute; this build has no cuda (default: cpu)"
    )
    _arguments.add_threads(parser)
    parser.add_argument(
        "--stats", action="store_true", help="speeds on standard error, also where that is no terminal"
    )


def run(options: argparse.Namespace) -> int:
    _arguments.apply_threads(options)
    folder = _arguments.data_folder(options)
    model = kael.GPT.from_pretrained(folder, device=options.device)
    tokenizer = kael.BpeTokenizer.from_pretrained(folder)
    prompt = tokenizer.encode(_arguments.text_or_input(_prompt(options), "prompt"))
    request = _generation.Request(
        prompt,
        options.max_tokens,
        options.temperature,
        options.top_k,
        options.seed if options.seed is not None else secrets.randbits(64),
        stop_tokens=_stop_tokens(options, tokenizer, folder),
        use_cache=True,
    )
    printer = _Printer(tokenizer)
    try:
        with _early.signals_interrupt():
            generation = model._generate(request, printer.token)
    except KeyboardInterrupt:
        printer.end()
        return 0
    printer.end()
    if sys.stderr is not None and (options.stats or sys.stderr.isatty()):
        print(_summary(len(prompt), generation), file=sys.stderr)
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


_REPLACEMENT = "\N{REPLACEMENT CHARACTER}".encode()


class _Printer:
    """Writes tokens to standard output as soon as they make up characters."""

    def __init__(self, tokenizer: kael.BpeTokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        # A terminal that lacks a character shows a question mark; the run goes on.
        sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]

    def token(self, token: int) -> None:
        self._write(self._decoder.decode(self._bytes(token)))

    def _bytes(self, token: int) -> bytes:
        try:
            return self._tokenizer.decode([token])
        except kael.Error as error:
            if error.code != kael.ErrorCode.INVALID_ARGUMENT:
                raise
            # A model may have more ids than its vocabulary: padding, which is no text but no failure either.
            return _REPLACEMENT

    def end(self) -> None:
        self._write(self._decoder.decode(b"", final=True) + "\n")

    def _write(self, text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()


def _summary(prompt_tokens: int, generation: kael.Generation) -> str:
    count = len(generation.tokens)
    parts = [f"{count} token{'s' if count != 1 else ''} ({generation.finish_reason})"]
    if count:
        parts.append(f"first after {generation.prompt_seconds * 1000:.0f} ms ({prompt_tokens} of prompt)")
    if count > 1 and generation.decode_seconds > 0:
        parts.append(f"then {(count - 1) / generation.decode_seconds:.0f} a second")
    parts.append(f"seed {generation.seed}")
    return "; ".join(parts)
