"""Download one of OpenAI's GPT-2 models from Hugging Face's hub.

An interrupted download goes on where it was. Needs the package huggingface_hub: pip install huggingface_hub.
"""

from __future__ import annotations

import argparse

from kael import _download
from kael._cli import _arguments


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "name", choices=_download.REPOSITORIES, metavar="MODEL", help=", ".join(_download.REPOSITORIES)
    )
    parser.add_argument(
        "--to", metavar="DIR", type=_arguments.path, required=True, help="folder for the model"
    )


def run(options: argparse.Namespace) -> int:
    _download.download(options.name, options.to)
    print(
        f"{options.to}: python -m kael generate --data {options.to} TEXT, scripts/serve --data {options.to}"
    )
    return 0
