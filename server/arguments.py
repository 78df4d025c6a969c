"""The command line's arguments.

Reading them takes the standard library alone, so that help and mistakes are answered before anything is
installed or built: ``python3 -m server.arguments`` answers those two and does nothing else.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import NoReturn

EXIT_USAGE = 2

PROGRAM = "kael-server" if __package__ == "kael_server" else f"python -m {__package__}"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options in ``arguments``, or else in the process's own. Ends the program after ``--help`` (0), and
    with one line on standard error where they are wrong (EXIT_USAGE)."""
    return _parser().parse_args(arguments)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line instead of the usage and a line."""
        self.exit(EXIT_USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and int(text[:6]) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is no port, expected 0 to 65535")
    return int(text)


def _folder(text: str) -> str:
    if not text:  # a variable that is not set must not serve another model
        raise argparse.ArgumentTypeError("the name of the folder is empty")
    return text


def _address(text: str) -> str:
    if not text:  # which would mean every address of this machine
        raise argparse.ArgumentTypeError("the address is empty")
    return text


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROGRAM,
        description="Serves text generation with a GPT-2 checkpoint over HTTP: POST /generate, GET /health, "
        "GET /metrics.",
        epilog="SIGTERM or Ctrl-C stops the running generation, answers its client and ends the program; a "
        "second one ends it at once. Exit codes: 0 done, 1 failed, 2 wrong arguments.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--data",
        metavar="DIR",
        type=_folder,
        help="folder with model.safetensors, vocab.json, merges.txt and, unless it is GPT-2 small, "
        "config.json (default: the small model that kael ships)",
    )
    parser.add_argument(
        "--device",
        choices=("cpu", "cuda"),
        default="cpu",
        help="where to compute; this build has no cuda (default: %(default)s)",
    )
    parser.add_argument(
        "--host",
        metavar="ADDRESS",
        type=_address,
        default="127.0.0.1",
        help="address to listen on; anybody who can reach it can use the model (default: %(default)s)",
    )
    parser.add_argument(
        "--port", type=_port, default=8000, help="port to listen on, 0 for a free one (default: %(default)s)"
    )
    parser.add_argument(
        "--check", action="store_true", help="load the model, answer one prompt over HTTP, print it and exit"
    )
    parser.add_argument("--version", action="store_true", help="print the versions of both packages and exit")
    return parser


if __name__ == "__main__":
    parse(sys.argv[1:])
