"""The report of ``bench`` as a table, and next to an earlier one."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import kael


def read_report(path: Path) -> dict[tuple[Any, ...], float]:
    """The speeds in a report that ``bench --json`` has written, each under what it is of."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        speeds = {key: row["tokens_per_second"] for result in report["results"] for key, row in _rows(result)}
        if not all(isinstance(speed, float) and 0 < speed < math.inf for speed in speeds.values()):
            raise ValueError("speeds are numbers above 0")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise kael.Error(
            f"{path} is no report of this program, expected what bench --json prints",
            kael.ErrorCode.INVALID_FILE,
        ) from error
    return speeds


def compare(report: dict[str, Any], earlier: dict[tuple[Any, ...], float]) -> None:
    """Adds to each row how many times as fast it is as it was."""
    for result in report["results"]:
        for key, row in _rows(result):
            if key in earlier:
                row["ratio"] = row["tokens_per_second"] / earlier[key]


def show(report: dict[str, Any]) -> None:
    """Prints the report."""
    model = report["model"]
    print(f"kael {report['version']} ({report['build']})")
    print(f"on {report['machine']['processor']}, {report['machine']['processors']} processors")
    print(f"{model['folder']}: {model['parameters']:,} parameters, file of {_megabytes(model['file_bytes'])}")
    for result in report["results"]:
        _show_result(result)
    for row in report.get("quality", []):
        _show_quality(row)


def _rows(result: dict[str, Any]) -> list[tuple[tuple[Any, ...], dict[str, Any]]]:
    """The rows of one result under what they are of."""
    run = (result["dtype"], result["threads"])
    decode = [((*run, "decode", row["depth"]), row) for row in result["decode"]]
    prompt = [((*run, "prompt", row["tokens"]), row) for row in result["prompt"]]
    return decode + prompt


def _show_quality(row: dict[str, Any]) -> None:
    if row["perplexity"] is None or row["perplexity_ratio"] is None:
        what = f"{row['nats_per_token']:.1f} nats a token"
    else:
        what = f"perplexity {row['perplexity']:.3f} ({row['perplexity_ratio'] - 1:+.2%} to float32)"
    print(
        f"{row['dtype']:>8} on the text: {what}, the most likely token is float32's at "
        f"{row['agreement']:.1%} of {row['tokens']:,} positions"
    )


def _ratio(row: dict[str, Any]) -> str:
    return f"   {row['ratio']:5.2f} x" if "ratio" in row else ""


def _show_result(result: dict[str, Any]) -> None:
    start = result["start"]
    threads = result["threads"]
    print(f"{result['dtype']}, {threads} thread{'s' if threads > 1 else ''}")
    for row in result["decode"]:
        print(
            f"  decode at {row['depth']:>4}   {row['tokens_per_second']:8.1f} tokens/s   "
            f"{row['bandwidth_share']:4.0%} of {row['read_bytes_per_second'] / 1e9:.1f} GB/s read "
            f"({row['bandwidth_share_of_weights']:.0%} by weights alone){_ratio(row)}"
        )
    for row in result["prompt"]:
        print(
            f"  prompt of {row['tokens']:>4}   {row['tokens_per_second']:8.1f} tokens/s   "
            f"{row['operations_share']:4.0%} of {row['operations_per_second'] / 1e9:.0f} Gop/s{_ratio(row)}"
        )
    print(f"  load             {start['load_seconds'] * 1000:8.1f} ms")
    print(f"  first token      {start['first_token_seconds'] * 1000:8.1f} ms from the start of loading")
    print(
        f"  peak memory      {_megabytes(start['peak_resident_bytes'])} at depth {start['depth']}: "
        f"weights and keys/values + {_megabytes(start['resident_above_weights_and_keys_values'])}"
    )


def _megabytes(count: float) -> str:
    return f"{count / 1e6:.1f} MB"
