"""The command: measures kael and its peers in turns; a table for each dtype and number of threads."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import kael
from kael import _machine
from kael._cli import _arguments
from peers import report
from peers.catalogue import DTYPES, ENGINES, KAEL
from peers.files import Files
from peers.gpt2_checkpoint import Checkpoint
from peers.launching import EngineError, Launcher
from peers.measurement import CHECKED, Decode, Group, Plan, Prompt

PROGRAM = "scripts/compare-peers"
_ROOT = Path(__file__).resolve().parents[3]
_FOLDER = _ROOT / "build" / "compare-peers"
_MODEL = _FOLDER / "gpt2-124m"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = _parser()
    options = parser.parse_args(arguments)
    launcher = Launcher(options.python)
    try:
        source = options.data or _default_model()
        plan = _plan(options, Checkpoint(source))
        if options.json:
            options.json.touch()  # refuses before the measurement, not after it
        versions = _versions(options.engines, launcher)
    except (EngineError, OSError, ValueError) as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        return 1
    comparison = _Comparison(plan, launcher, Files(source, options.files, launcher), versions)
    print(f"kael {kael.__version__} ({kael.build_info()})")
    print(f"on {_machine.processor_name()}, {_machine.processor_count()} processors\n", flush=True)
    groups = [
        comparison.group(dtype, threads)
        for dtype in options.dtypes
        for threads in options.threads
        if any(dtype in ENGINES[engine].dtypes for engine in versions)
    ]
    agree = _first_ids_agree(groups)
    if options.json:
        machine = {"processor": _machine.processor_name(), "processors": _machine.processor_count()}
        document = {
            "kael": {"version": kael.__version__, "build": kael.build_info()},
            "machine": machine,
            "model": str(source),
            "versions": versions,
            "groups": groups,
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return int(not agree or any(group["failures"] for group in groups))


class _Comparison:
    """Measures groups of engines, and prints the table of each."""

    def __init__(self, plan: Plan, launcher: Launcher, files: Files, versions: dict[str, str]) -> None:
        self._plan, self._launcher, self._files = plan, launcher, files
        self._versions = versions
        self._titles = {engine: f"{ENGINES[engine].title} {version}" for engine, version in versions.items()}

    def group(self, dtype: str, threads: int) -> dict[str, Any]:
        commands, failures = {}, {}
        for engine, version in self._versions.items():
            entry = ENGINES[engine]
            if dtype not in entry.dtypes:
                continue
            try:
                folder = self._files.made(engine, entry, version, dtype)
            except EngineError as error:
                failures[engine] = str(error)
                continue
            where = (self._files.source, folder)
            commands[engine] = self._launcher.command(
                engine, "worker", "serve", entry.module, *where, dtype, threads
            )
        with Group(self._plan, threads, commands) as group:
            group.failures.update(failures)
            group.measure()
        summary = report.summary(dtype, threads, group)
        print(report.table(summary, self._titles))
        print(*("", *report.notes(summary, self._titles)), sep="\n", flush=True)
        return summary


def _first_ids_agree(groups: Sequence[dict[str, Any]]) -> bool:
    """Says whether all engines begin with the same tokens at float32; true where none was measured."""
    beginnings: dict[tuple[int, ...], set[str]] = {}
    for group in groups:
        if group["dtype"] == "float32":
            for engine, figures in group["engines"].items():
                beginnings.setdefault(tuple(figures["first_ids"]), set()).add(ENGINES[engine].title)
    if len(beginnings) == 1:
        ids = " ".join(map(str, next(iter(beginnings))))
        print(f"At float32 all engines begin with the same tokens: {ids}")
    elif beginnings:
        print("At float32 the engines begin with different tokens:")
        for first_ids, engines in beginnings.items():
            print(f"  {' '.join(map(str, first_ids))}: {', '.join(sorted(engines))}")
    return len(beginnings) <= 1


def _default_model() -> Path:
    """GPT-2 small with seeded random weights, made where it is missing."""
    if not (_MODEL / "model.safetensors").exists():
        print(f"Making the model in {_MODEL}", file=sys.stderr)
        subprocess.run([sys.executable, _ROOT / "scripts" / "make-gpt2-124m", _MODEL], check=True)
    return _MODEL


def _plan(options: argparse.Namespace, model: Checkpoint) -> Plan:
    workloads = (*map(Decode, options.depths), *map(Prompt, options.prompts))
    for name, needed in [("the check", sum(CHECKED)), *((one.name, sum(one.shape)) for one in workloads)]:
        if needed > model.positions:
            raise ValueError(f"{name} takes {needed} positions, and the model has {model.positions}")
    return Plan(workloads, model.vocabulary, options.rounds, options.starts, options.wait)


def _versions(engines: Sequence[str], launcher: Launcher) -> dict[str, str]:
    """Of the engines that are there; says what installs the others."""
    versions = {}
    for engine in engines:
        entry = ENGINES[engine]
        if engine == KAEL:
            versions[engine] = kael.__version__
            continue
        found = launcher.versions(engine, entry)
        missing = [package for package, version in found.items() if version is None]
        if missing:
            print(f"{entry.title} is left out, without {', '.join(missing)}. This installs what it needs:")
            print(f"  {launcher.install(entry.packages.values())}", flush=True)
        else:
            versions[engine] = next(iter(found.values())) or "of unknown version"
    return versions


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=PROGRAM, description=__doc__, allow_abbrev=False)
    counts = _arguments.whole_numbers(1, 2**20)
    parser.add_argument("--data", metavar="DIR", type=_arguments.path, help="folder of the model")
    parser.add_argument(
        "--files",
        metavar="DIR",
        type=_arguments.path,
        default=_FOLDER / "files",
        help="where the models of the peers are kept",
    )
    parser.add_argument(
        "--python",
        metavar="FILE",
        type=_arguments.path,
        default=Path(sys.executable),
        help="interpreter that has the peers",
    )
    parser.add_argument("--engines", metavar="NAME,NAME", type=_names(ENGINES), default=list(ENGINES))
    parser.add_argument("--dtypes", metavar="NAME,NAME", type=_names(DTYPES), default=list(DTYPES))
    parser.add_argument("--threads", metavar="N,N", type=_arguments.whole_numbers(1, 256), default=[1, 2])
    parser.add_argument("--depths", metavar="N,N", type=counts, default=[32, 512])
    parser.add_argument("--prompts", metavar="N,N", type=counts, default=[512, 960])
    parser.add_argument("--rounds", metavar="N", type=_arguments.whole_number(1, 1000), default=5)
    parser.add_argument("--starts", metavar="N", type=_arguments.whole_number(1, 1000), default=3)
    parser.add_argument("--wait", metavar="SECONDS", type=_arguments.number(0, 3600), default=0)
    parser.add_argument("--json", metavar="FILE", type=_arguments.path)
    return parser


def _names(choices: Sequence[str] | dict[str, Any]) -> Callable[[str], list[str]]:
    """A type for argparse: some of the choices with commas between them."""

    def parse(text: str) -> list[str]:
        names = text.split(",")
        for name in names:
            if name not in choices:
                raise argparse.ArgumentTypeError(f"expected names out of {', '.join(choices)}, not {name!r}")
        return names

    return parse


if __name__ == "__main__":
    sys.exit(main())
