"""The metrics of a training: lines of JSON, and a picture of them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from kael._errors import Error, ErrorCode


def read_metrics(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The lines of a file of metrics. The last one may be cut short, by a full disk or a killed process."""
    try:
        lines = Path(path).read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Error(f"cannot read {path}: {error.strerror}", ErrorCode.IO_ERROR) from None
    metrics = []
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line)
            metrics.append({**fields, "step": int(fields["step"])})
        except (ValueError, LookupError, TypeError, OverflowError, RecursionError):
            if number < len(lines):
                raise Error(
                    f"line {number} of {path} is no metrics of a training", ErrorCode.INVALID_FILE
                ) from None
    return metrics


def draw_losses(metrics: str | os.PathLike[str], picture: str | os.PathLike[str]) -> None:
    """Draws the losses of a file of metrics by step, to a ``.svg`` or ``.png`` file. Needs the package
    ``matplotlib``.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise Error(
            "drawing needs the package matplotlib: pip install matplotlib", ErrorCode.UNSUPPORTED
        ) from None
    lines = read_metrics(metrics)
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    axes = figure.subplots()
    for name, label, style in (
        ("loss", "training", {"linewidth": 0.8, "alpha": 0.7}),
        ("validation_loss", "validation", {"marker": "o", "markersize": 3}),
    ):
        points = [(line["step"], line[name]) for line in lines if name in line]
        if points:
            axes.plot(*zip(*points, strict=True), label=label, **style)
    axes.set_xlabel("step")
    axes.set_ylabel("loss per token")
    axes.grid(alpha=0.3)
    if axes.has_data():
        axes.legend()
    try:
        figure.savefig(picture, metadata={"Date": None} if str(picture).endswith(".svg") else None)
    except OSError as error:
        raise Error(f"cannot write {picture}: {error.strerror}", ErrorCode.IO_ERROR) from None
