"""The model that the package ships, and the version of the package."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

from kael._errors import Error, ErrorCode


def default_model_path() -> Path:
    """The folder of the small model that the package ships: ``config.json``, ``model.safetensors``,
    ``vocab.json`` and ``merges.txt``.
    """
    folder = Path(__file__).resolve().parent / "models" / "starter"
    if not (folder / "model.safetensors").is_file():
        raise Error(f"the package ships no model: {folder} has no model.safetensors", ErrorCode.NOT_FOUND)
    return folder


def package_version() -> str:
    """Of the checkout that this file is in, else of the installed distribution. Both come from the file
    VERSION.
    """
    checkout = Path(__file__).resolve().parents[2]
    version = checkout / "VERSION"
    if version.is_file() and (checkout / "py" / "kael" / "_models.py").is_file():
        return version.read_text(encoding="ascii").strip()
    try:
        return importlib.metadata.version("kael")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"  # a copy of the folder alone
