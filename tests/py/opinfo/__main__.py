"""The command: a table of operators, and whether kael does what PyTorch does."""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence

from opinfo import differences
from opinfo.outcomes import FAILED, PASSED, SKIPPED, Outcome


def main(arguments: Sequence[str] | None = None) -> int:
    chosen = _parser().parse_args(arguments)
    try:
        import expecttest  # noqa: F401  # which PyTorch's samples are written with
        import torch
    except ImportError as error:
        print(f"{error.name} is missing: {sys.executable} -m pip install torch expecttest", file=sys.stderr)
        return 1
    warnings.simplefilter("ignore")  # of PyTorch, about its own samples
    torch.set_num_threads(1)  # the samples are small

    from opinfo import judge, operators, values

    wanted = [info for info in operators.shared() if not chosen.operator or info.name in chosen.operator]
    unknown = set(chosen.operator or ()) - {info.name for info in wanted}
    if unknown:
        print(f"no operator that both libraries have: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    known = differences.read()
    outcomes: list[Outcome] = []
    explained: list[str | None] = []
    width = max(len(operators.full_name(info)) for info in wanted)
    print(f"{'operator':{width}}   passed   failed    known  skipped")
    for info in wanted:
        own = list(judge.judge(info, values.DTYPES.values()))
        reasons = [differences.reason(outcome, known) for outcome in own]
        outcomes += own
        explained += reasons
        # At once: should a sample end the process, the operator is the one after the last line.
        print(_row(operators.full_name(info), width, own, reasons), flush=True)
    print(_row("total", width, outcomes, explained, why=False))

    pairs = list(zip(outcomes, explained, strict=True))
    failures = [outcome for outcome, reason in pairs if outcome.status == FAILED and reason is None]
    gone = differences.no_longer_there(known, outcomes)
    _print_failures(failures, chosen.verbose)
    for line in gone:
        print(f"listed as a known difference, and no longer there: {line}")
    if chosen.json:
        _write(chosen.json, pairs, gone)
    return 1 if failures or gone else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/scoreboard",
        description="Runs PyTorch's own samples of every operator that kael has, in every dtype that both "
        "have, and compares: results, gradients, results in place, results from tensors that are not "
        "contiguous, refusals.",
        epilog="Exit codes: 0 when all that differs is in the list of known differences, and all of that "
        "list differs; 1 otherwise, or without PyTorch; 2 for wrong arguments.",
    )
    parser.add_argument("--operator", metavar="NAME", action="append", help="only this one; may be repeated")
    parser.add_argument(
        "--json", metavar="FILE", help="write every outcome that did not pass, and the counts"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show every failure, not one of a kind")
    return parser


def _row(name: str, width: int, outcomes: list[Outcome], reasons: list[str | None], why: bool = True) -> str:
    counts = _counts(zip(outcomes, reasons, strict=True))
    skipped = Counter(outcome.text for outcome in outcomes if outcome.status == SKIPPED)
    notes = "; ".join(text for text, _ in skipped.most_common()) if why else ""
    numbers = "".join(f"{counts[column]:9}" for column in (PASSED, FAILED, "known", SKIPPED))
    return f"{name:{width}}{numbers}   {notes}".rstrip()


def _counts(pairs: Iterable[tuple[Outcome, str | None]]) -> Counter[str]:
    return Counter("known" if reason else outcome.status for outcome, reason in pairs)


def _print_failures(failures: list[Outcome], verbose: bool) -> None:
    shown = set()
    for outcome in failures:
        kind = outcome.operator, outcome.text.split(" ")[0]
        if verbose or kind not in shown:
            print(f"{outcome.operator} ({outcome.sample}), {outcome.dtype}, {outcome.check}: {outcome.text}")
        shown.add(kind)


def _write(file: str, pairs: list[tuple[Outcome, str | None]], gone: list[str]) -> None:
    rows = [
        {**vars(outcome), "known": reason} if reason else vars(outcome)
        for outcome, reason in pairs
        if outcome.status != PASSED
    ]
    report = {"counts": _counts(pairs), "no_longer_there": gone, "not_passed": rows}
    with open(file, "w", encoding="utf-8") as opened:
        json.dump(report, opened, indent=1)
        opened.write("\n")


if __name__ == "__main__":
    sys.exit(main())
