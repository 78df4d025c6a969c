"""OpenAI's GPT-2 checkpoints, from Hugging Face's hub."""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from pathlib import Path

from kael import _checks
from kael._errors import Error, ErrorCode
from kael._made_folder import made_folder

#: The hub's repositories, by the names that people know.
REPOSITORIES = {
    "gpt2": "openai-community/gpt2",
    "gpt2-medium": "openai-community/gpt2-medium",
    "gpt2-large": "openai-community/gpt2-large",
    "gpt2-xl": "openai-community/gpt2-xl",
    "distilgpt2": "distilbert/distilgpt2",
}
# All of them have the tokenizer that OpenAI published: SHA-256 of its two files.
_CHECKSUMS = {
    "vocab.json": "196139668be63f3b5d6574427317ae82f612a97c5d1cdaf36ed2256dbf636783",
    "merges.txt": "1ce1664773c50f3e0cc8842619a93edc4624525b728b188a9e0be33b7726adc5",
}
# The large one last: what is wrong with the others shows at once.
_FILES = (*_CHECKSUMS, "config.json", "model.safetensors")
# Seconds until a hub that does not answer is taken for one that cannot be reached.
_PATIENCE = 20


def download(name: str, folder: str | os.PathLike[str]) -> None:
    """Downloads one of :data:`REPOSITORIES` to ``folder``, where :meth:`kael.GPT.from_pretrained` reads it. A
    download that was interrupted goes on where it was; files that are there are not fetched again. Needs the
    package ``huggingface_hub``, which shows a bar and takes its settings (``HF_ENDPOINT``, ``HF_TOKEN``) from
    the environment.

    Raises :class:`kael.Error` without a network, and for a tokenizer that is not GPT-2's.
    """
    repository = REPOSITORIES[_checks.choice("name", name, REPOSITORIES)]
    target = Path(os.fsdecode(_checks.path("folder", folder)))
    try:
        from huggingface_hub import constants, hf_hub_download
        from huggingface_hub.utils import logging
    except ImportError:
        raise Error(
            "downloading needs the package huggingface_hub: pip install huggingface_hub",
            ErrorCode.UNSUPPORTED,
        ) from None
    with made_folder(target):
        _reach(constants.ENDPOINT)
        logging.set_verbosity_error()  # type: ignore[no-untyped-call]  # it would tell of each of its tries
        for file in _FILES:
            try:
                hf_hub_download(repository, file, local_dir=target)
            except Exception as error:  # of whatever library fetches: there is no list of them
                reason = " ".join(str(error).split()) or type(error).__name__
                raise Error(
                    f"cannot download {file} of {repository} to {target}: {reason}", ErrorCode.IO_ERROR
                ) from None
            if file in _CHECKSUMS:
                _check(target / file, _CHECKSUMS[file], repository)


def _reach(endpoint: str) -> None:
    """Tells at once that there is no network: what fetches would try again and again."""
    if not endpoint.startswith(("http://", "https://")):
        raise Error(f"HF_ENDPOINT is {endpoint!r}, expected an address that begins with http:// or https://")
    request = urllib.request.Request(endpoint, method="HEAD")  # noqa: S310  # looked at above
    try:
        with urllib.request.urlopen(request, timeout=_PATIENCE):  # noqa: S310
            pass
    except urllib.error.HTTPError:
        pass  # an answer
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise Error(
            f"{endpoint} cannot be reached: {reason}; without a network, copy a folder with "
            f"{', '.join(sorted(_FILES))} from elsewhere",
            ErrorCode.IO_ERROR,
        ) from None


def _check(path: Path, expected: str, repository: str) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != expected:
        path.unlink()
        raise Error(
            f"{path.name} of {repository} is not GPT-2's: its SHA-256 is {found}, expected {expected}; it is "
            "removed",
            ErrorCode.INVALID_FILE,
        )
