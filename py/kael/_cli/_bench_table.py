"""The report of ``bench`` as a table, and next to an earlier one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import kael


def read_report(path: Path) -> dict[str, Any]:
    """A report that ``bench --json`` has written."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
        for result in report["results"]:
            _rows(result)
    except (ValueError, KeyError, TypeError) as error:
        raise kael.Error(
            f"{path} is no report of this program, expected what bench --json prints",
            kael.ErrorCode.INVALID_FILE,
        ) from error
    return dict(report)


def show(report: dict[str, Any], earlier: dict[str, Any] | None) -> None:
    """Prints the report, and with ``earlier`` how many times as fast each figure is as it was there."""
    model = report["model"]
    print(f"kael {report['version']} ({report['build']})")
    print(f"on {report['machine']['processor']}, {report['machine']['processors']} processors")
    print(f"{model['folder']}: {model['parameters']:,} parameters, file of {_megabytes(model['file_bytes'])}")
    past = {key: speed for result in (earlier or {"results": []})["results"] for key, speed in _rows(result)}
    for result in report["results"]:
        ratios = [f"   {speed / past[key]:5.2f} x" if past.get(key) else "" for key, speed in _rows(result)]
        _show_result(result, ratios)
    for row in report.get("quality", []):
        print(
            f"{row['dtype']:>8} on the text: perplexity {row['perplexity']:.3f} "
            f"({row['perplexity_ratio'] - 1:+.2%} to float32), the most likely token is float32's at "
            f"{row['agreement']:.1%} of {row['tokens']:,} positions"
        )


def _rows(result: dict[str, Any]) -> list[tuple[tuple[Any, ...], float]]:
    """The speeds of one result under what they are of, in the order of the table."""
    run = (result["dtype"], result["threads"])
    decode = [((*run, "decode", row["depth"]), row["tokens_per_second"]) for row in result["decode"]]
    prompt = [((*run, "prompt", row["tokens"]), row["tokens_per_second"]) for row in result["prompt"]]
    return decode + prompt


def _show_result(result: dict[str, Any], ratios: list[str]) -> None:
    start = result["start"]
    threads = result["threads"]
    print(f"{result['dtype']}, {threads} thread{'s' if threads > 1 else ''}")
    ratio = iter(ratios)
    for row in result["decode"]:
        print(
            f"  decode at {row['depth']:>4}   {row['tokens_per_second']:8.1f} tokens/s   "
            f"{row['bandwidth_share']:4.0%} of {row['read_bytes_per_second'] / 1e9:.1f} GB/s read "
            f"({row['bandwidth_share_of_weights']:.0%} by weights alone){next(ratio)}"
        )
    for row in result["prompt"]:
        print(
            f"  prompt of {row['tokens']:>4}   {row['tokens_per_second']:8.1f} tokens/s   "
            f"{row['operations_share']:4.0%} of {row['operations_per_second'] / 1e9:.0f} Gop/s{next(ratio)}"
        )
    print(f"  load             {start['load_seconds'] * 1000:8.1f} ms")
    print(f"  first token      {start['first_token_seconds'] * 1000:8.1f} ms from the start of loading")
    print(
        f"  peak memory      {_megabytes(start['peak_resident_bytes'])} at depth {start['depth']}: "
        f"weights and keys/values + {_megabytes(start['resident_above_weights_and_keys_values'])}"
    )


def _megabytes(count: float) -> str:
    return f"{count / 1e6:.1f} MB"
