"""The command line's arguments.

Reading them takes the standard library alone, so that what they alone decide is answered before anything is
installed or built: ``python3 -m server.arguments``, in a checkout, answers help, version and mistakes, and
does nothing else.
"""

from __future__ import annotations

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from . import __version__
from .options import CONFIG, ENVIRONMENT_PREFIX, OPTIONS, Mistake, NoFile, Option, complete

EXIT_FAILED, EXIT_USAGE = 1, 2

PROGRAM = "kael-server" if __package__ == "kael_server" else f"python -m {__package__}"


class Failure(Exception):
    """Ends the program with its one line on stderr and EXIT_FAILED."""


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    """The options in ``arguments``, or else in the process's own. Ends the program after ``--help`` (0), and
    with one line on standard error where they are wrong (EXIT_USAGE) or name what is not there (EXIT_FAILED).
    """
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        complete(options, os.environ)
    except Mistake as mistake:
        parser.error(str(mistake))
    except NoFile as failure:
        parser.exit(EXIT_FAILED, f"{PROGRAM}: {failure}\n")
    lacking = None if options.version else _lacking(options)
    if lacking is not None:
        parser.exit(EXIT_FAILED, f"{PROGRAM}: {lacking}\n")
    return options


def _lacking(options: argparse.Namespace) -> str | None:
    """What the options name that is not there."""
    if options.device != "cpu":
        return f"--device: {options.device!r} is not available in this build, expected 'cpu'"
    if options.data is not None and not os.path.isdir(options.data):
        name = options.data if options.data.isprintable() else ascii(options.data)
        return f"--data: {name} is no folder, expected one with a model: python -m kael download gets one"
    return None


def version_line(kael_version: str) -> str:
    """What ``--version`` prints."""
    return f"kael-server {__version__}, kael {kael_version}"


def tell(text: str) -> None:
    """Prints what was asked for. Ends the program with one line and EXIT_FAILED where standard output does
    not take it; a reader that has left had all it wanted."""
    try:
        if sys.stdout is None:  # it was closed from the start
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        print(text, flush=True)
    except OSError as error:
        silence_stdout()
        if not isinstance(error, BrokenPipeError):
            print(f"{PROGRAM}: cannot write to standard output: {error.strerror}", file=sys.stderr)
            sys.exit(EXIT_FAILED)


def silence_stdout() -> None:
    """What could not be written must not be tried again when the interpreter ends."""
    if sys.stdout is None:
        return
    descriptor = os.open(os.devnull, os.O_WRONLY)
    os.dup2(descriptor, sys.stdout.fileno())
    os.close(descriptor)


class _Parser(argparse.ArgumentParser):
    def print_help(self, file: Any = None) -> None:
        """argparse would drop what cannot be written."""
        tell(self.format_help().rstrip("\n"))

    def error(self, message: str) -> NoReturn:
        """One line instead of the usage and a line."""
        self.exit(EXIT_USAGE, f"{self.prog}: {message} (see {self.prog} --help)\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=PROGRAM,
        description="Serves text generation with a GPT-2 checkpoint over HTTP: POST /generate, GET /health, "
        "GET /metrics.",
        epilog="A setting that is not on the command line is taken from the environment (--body-seconds from "
        f"{ENVIRONMENT_PREFIX}BODY_SECONDS), else from the file of --config (body-seconds = 10). SIGTERM or "
        "Ctrl-C stops the running generation, answers its client and ends the program; a second one ends it "
        "at once. Exit codes: 0 done, 1 failed, 2 wrong arguments.",
        allow_abbrev=False,
    )
    for option in (CONFIG, *OPTIONS):
        _add(parser, option)
    parser.add_argument(
        "--check",
        action="store_true",
        help="load the model, answer one prompt over HTTP, print the settings and the answer, and exit",
    )
    parser.add_argument("--version", action="store_true", help="print the versions of both packages and exit")
    return parser


def _add(parser: argparse.ArgumentParser, option: Option) -> None:
    """The default stands in the help alone: the command line says None for what it does not have."""
    if option.is_flag:
        parser.add_argument(
            f"--{option.name}", dest=option.attribute, action="store_const", const=True, help=option.help
        )
        return
    default = f"{option.default:g}" if isinstance(option.default, float) else option.default
    parser.add_argument(
        f"--{option.name}",
        dest=option.attribute,
        metavar=option.metavar,
        type=option.read,
        action="append" if option.many else "store",
        help=option.help if default is None else f"{option.help} (default: {default})",
    )


if __name__ == "__main__":
    if parse(sys.argv[1:]).version:
        tell(version_line(__version__))  # in a checkout, both packages have the version of the file VERSION
