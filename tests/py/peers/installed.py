"""Prints, as JSON, which version of each package this interpreter has: arguments are MODULE=PACKAGE."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import sys


def version(module: str, package: str) -> str | None:
    """None where the module is missing, an empty text where nobody knows."""
    if importlib.util.find_spec(module) is None:
        return None
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


if __name__ == "__main__":
    wanted = dict(argument.split("=") for argument in sys.argv[1:])
    print(json.dumps({package: version(module, package) for module, package in wanted.items()}))
