"""Show what is in a safetensors file or a model folder, and whether it is sound.

A folder is also loaded, so that a tensor which is missing, surplus or of another shape than config.json says
is found.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import kael


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "path", metavar="PATH", type=Path, help="a .safetensors file, or a folder with a model"
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
        {"name": name, "dtype": tensor.dtype, "shape": list(tensor.shape), "bytes": tensor.nbytes}
        for name, tensor in content.items()
    ]
    return {"path": str(path), "tensors": tensors, "metadata": content.metadata}


def _folder(folder: Path) -> dict[str, Any]:
    with kael.GPT.from_pretrained(folder) as model:
        config, parameters = asdict(model.config), model.parameter_count
    return {
        "path": str(folder),
        "files": [_file(path) for path in _weight_files(folder)],
        "config": config,
        "parameters": parameters,
        "tokenizer": _tokenizer(folder),
    }


def _weight_files(folder: Path) -> list[Path]:
    """What the model, which has loaded, was made from."""
    single = folder / "model.safetensors"
    if single.is_file():
        return [single]
    index = json.loads((folder / "model.safetensors.index.json").read_text(encoding="utf-8"))
    return [folder / name for name in sorted(set(index["weight_map"].values()))]


def _tokenizer(folder: Path) -> dict[str, Any] | None:
    files = [folder / "vocab.json", folder / "merges.txt"]
    if not any(path.exists() for path in files):
        return None
    tokenizer = kael.BpeTokenizer(*files)
    return {"tokens": tokenizer.vocabulary_size, "end_of_text": tokenizer.end_of_text}


def _show(report: dict[str, Any]) -> None:
    if "files" not in report:
        _show_file(report)
        print("sound")
        return
    for file in report["files"]:
        _show_file(file)
    print(f"{report['path']}: a GPT-2 of {report['parameters']:,} parameters")
    for name, value in report["config"].items():
        print(f"  {name} = {value}")
    tokenizer = report["tokenizer"]
    if tokenizer is None:
        print("  no tokenizer: vocab.json and merges.txt are absent")
    else:
        print(f"  tokenizer of {tokenizer['tokens']} tokens, <|endoftext|> is {tokenizer['end_of_text']}")
    print("sound")


def _show_file(file: dict[str, Any]) -> None:
    tensors = file["tensors"]
    rows = [(t["name"], t["dtype"], str(t["shape"]), f"{t['bytes']:,}") for t in tensors]
    widths = [max((len(row[column]) for row in rows), default=0) for column in range(4)]
    print(f"{file['path']}: {len(tensors)} tensors, {sum(t['bytes'] for t in tensors):,} bytes")
    for name, dtype, shape, size in rows:
        print(f"  {name:{widths[0]}}  {dtype:{widths[1]}}  {shape:{widths[2]}}  {size:>{widths[3]}}")
    for key, value in file["metadata"].items():
        print(f"  {key!r} = {value!r}")
