"""Show what is in a safetensors file or a model folder, and whether it is sound.

Elements that are NaN or infinite are counted. A folder is also loaded, so that a tensor which is missing,
surplus or of another shape than config.json says is found.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import kael
from kael._cli import _arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", metavar="PATH", type=_arguments.path, help="a .safetensors file, or a folder with a model"
    )
    parser.add_argument("--json", action="store_true", help="the same as JSON")


def run(options: argparse.Namespace) -> int:
    path: Path = options.path
    if not path.exists():
        raise kael.Error(f"{path} does not exist", kael.ErrorCode.NOT_FOUND)
    report = _folder(path) if path.is_dir() else _file(path)
    if options.json:
        print(json.dumps(report))
    else:
        sys.stdout.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]
        _show(report)
    return 0


def _file(path: Path) -> dict[str, Any]:
    content = kael.load_safetensors(path, mode="mapped")
    tensors = [
        {
            "name": name,
            "dtype": tensor.dtype,
            "shape": list(tensor.shape),
            "bytes": tensor.nbytes,
            "not_finite": _not_finite(tensor),
        }
        for name, tensor in sorted(content.items(), key=_layers_by_number)
    ]
    return {"path": str(path), "tensors": tensors, "metadata": content.metadata}


def _not_finite(tensor: kael.Tensor) -> int:
    """How many elements are NaN or infinite."""
    return tensor.numel() - int(tensor.isfinite().sum().item())


def _layers_by_number(item: tuple[str, kael.Tensor]) -> list[Any]:
    """h.10 comes after h.9. Every second part is a number, so that only likes are compared; the one with more
    digits is larger, and there may be too many of them for ``int``.
    """
    parts = re.split("0*([0-9]+)", item[0])
    return [(len(part), part) if place % 2 else part for place, part in enumerate(parts)]


def _folder(folder: Path) -> dict[str, Any]:
    with kael.GPT.from_pretrained(folder) as model:
        config = asdict(model.config)
        parameters = model.parameter_count
    tokenizer = _tokenizer(folder)
    if tokenizer is not None:
        _arguments.require_known_tokens(folder, tokenizer["tokens"], config["vocab_size"])
    return {
        "path": str(folder),
        "files": [_file(path) for path in _weight_files(folder)],
        "config": config,
        "parameters": parameters,
        "tokenizer": tokenizer,
    }


def _weight_files(folder: Path) -> list[Path]:
    """What the model, which has loaded, was made from."""
    single = folder / "model.safetensors"
    if single.is_file():
        return [single]
    index = json.loads((folder / "model.safetensors.index.json").read_text(encoding="utf-8"))
    return [folder / name for name in sorted(set(index["weight_map"].values()))]


def _tokenizer(folder: Path) -> dict[str, Any] | None:
    if not any(os.path.lexists(folder / name) for name in ("vocab.json", "merges.txt")):
        return None
    tokenizer = kael.BpeTokenizer.from_pretrained(folder)
    return {"tokens": tokenizer.vocabulary_size, "end_of_text": tokenizer.end_of_text}


def _show(report: dict[str, Any]) -> None:
    if "files" not in report:
        _show_file(report)
        return
    broken = any(tensor["not_finite"] for file in report["files"] for tensor in file["tensors"])
    verdict = "NaN or infinity in its weights" if broken else "sound"
    print(f"{report['path']}: {verdict}, a GPT-2 of {report['parameters']:,} parameters")
    for name, value in report["config"].items():
        print(f"  {name} = {value}")
    tokenizer = report["tokenizer"]
    if tokenizer is None:
        print("  no tokenizer: vocab.json and merges.txt are absent")
    else:
        print(f"  tokenizer of {tokenizer['tokens']} tokens, <|endoftext|> is {tokenizer['end_of_text']}")
    for file in report["files"]:
        print()
        _show_file(file)


def _show_file(file: dict[str, Any]) -> None:
    tensors = file["tensors"]
    broken = sum(tensor["not_finite"] > 0 for tensor in tensors)
    verdict = f"{broken} tensors hold NaN or infinity" if broken else "sound"
    print(f"{file['path']}: {verdict}, {len(tensors)} tensors, {sum(t['bytes'] for t in tensors):,} bytes")
    for key, value in file["metadata"].items():
        print(f"  {key!r} = {value!r}")
    rows = [("tensor", "dtype", "shape", "bytes", "")]
    rows += [
        (t["name"], t["dtype"], str(t["shape"]), f"{t['bytes']:,}", _warning(t["not_finite"]))
        for t in tensors
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    for name, dtype, shape, size, warning in rows if tensors else []:
        print(f"  {name:{widths[0]}}  {dtype:{widths[1]}}  {shape:{widths[2]}}  {size:>{widths[3]}}{warning}")


def _warning(not_finite: int) -> str:
    return f"  {not_finite:,} NaN or infinite" if not_finite else ""
