"""The command line: ``python -m kael COMMAND``.

Exit codes: 0 done, also after SIGINT and SIGTERM, 1 failed, 2 wrong arguments. A failure is one line on
standard error: what was wrong, what was expected, where.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

import kael
from kael._cli import _bench, _download, _generate, _inspect, _tokenize, _tokenizer, _train
from kael._errors import one_line

_PROGRAM = "python -m kael"
_COMMANDS = (_generate, _train, _tokenizer, _download, _tokenize, _inspect, _bench)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    program = _PROGRAM
    try:
        given = _with_joined_prompt(sys.argv[1:] if arguments is None else arguments)
        options, unknown = _parser().parse_known_args(given)
        if unknown:
            options.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
        program = f"{_PROGRAM} {options.command}"
        _require_stdout()
        code: int = options.run(options)
        sys.stdout.flush()
    except kael.Error as error:
        return _fail(program, error.message)
    except BrokenPipeError:
        _abandon_output()  # the reader has all it wanted
        return 0
    except KeyboardInterrupt:  # out of a command that takes the signals itself
        _tell(program, "interrupted")
        return 0
    except OSError as error:
        if error.filename is None:
            _abandon_output()
        where = f": {error.filename}" if error.filename else ""
        return _fail(program, f"{error.strerror or error}{where}")
    except MemoryError:
        return _fail(program, "out of memory")
    return code


def _require_stdout() -> None:
    if sys.stdout is None:
        raise kael.Error("standard output is closed")


def _with_joined_prompt(arguments: Sequence[str]) -> list[str]:
    """``--prompt TEXT`` as ``--prompt=TEXT``: argparse takes a TEXT that begins with a dash for an option."""
    joined = list(arguments)
    options_end = joined.index("--") if "--" in joined else len(joined)
    if "--prompt" in joined[:options_end]:
        place = joined.index("--prompt")
        joined[place : place + 2] = ["=".join(joined[place : place + 2])]
    return joined


def _fail(program: str, message: str) -> int:
    _tell(program, message)
    return 1


def _tell(program: str, message: str) -> None:
    if sys.stderr is not None:  # it is None where it was closed from the start
        print(f"{program}: {one_line(message)}", file=sys.stderr)


def _abandon_output() -> None:
    """What could not be written cannot be flushed at exit either, where Python would end with code 120."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class _Parser(argparse.ArgumentParser):
    """Answers wrong arguments with one line and code 2."""

    def error(self, message: str) -> NoReturn:
        hint = "--help shows what there is"
        if message.startswith("unrecognized arguments: ") and not message.partition(": ")[2].startswith("-"):
            hint += '; what holds spaces needs quotes, as "Once upon a time"'
        self.exit(2, f"{self.prog}: {one_line(message)} ({hint})\n")

    def print_help(self, file: Any = None) -> None:
        """argparse would drop what cannot be written."""
        _require_stdout()
        print(self.format_help(), end="", flush=True)


class _Version(argparse.Action):
    """Prints the version and ends, as argparse's own does, which would drop what cannot be written."""

    def __init__(self, option_strings: Sequence[str], dest: str) -> None:
        super().__init__(option_strings, argparse.SUPPRESS, nargs=0, help="show the version and exit")

    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> NoReturn:
        _require_stdout()
        print(f"kael {kael.__version__}", flush=True)
        parser.exit()


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=_PROGRAM,
        description="Run, train, measure and look into GPT-2 models.",
        epilog="Exit codes: 0 done or interrupted, 1 failed, 2 wrong arguments.",
        allow_abbrev=False,
    )
    parser.add_argument("--version", action=_Version)
    commands = parser.add_subparsers(title="commands", dest="command", required=True, metavar="COMMAND")
    for module in _COMMANDS:
        name = module.__name__.rpartition("_")[2]
        summary = (module.__doc__ or "").splitlines()[0]
        command = commands.add_parser(name, help=summary, description=module.__doc__, allow_abbrev=False)
        module.add_arguments(command)
        command.set_defaults(run=module.run, parser=command)
    return parser
