"""What ``--check`` does: the server answers one request over HTTP, and says what it is set to."""

from __future__ import annotations

import argparse
import json
import logging
from typing import Any

from tornado.httpclient import AsyncHTTPClient

import kael

from .app import KaelApplication
from .arguments import Failure, silence_stdout
from .configuration import as_file
from .listening import listen, url_of
from .serve import SHUTDOWN_SECONDS, start, stop
from .settings import Settings

PROMPT = "Once upon a time"
TOKENS = 8
_SECONDS = 600.0  # enough for a large model on a slow machine


class _Failures(logging.Handler):
    """Keeps the errors that the log would show, for the one line in which a check fails."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        text = error.message if isinstance(error, kael.Error) else str(error or record.getMessage())
        self.texts.append(" ".join(text.split()))


async def check(app: KaelApplication, options: argparse.Namespace) -> None:
    """Asks the server, on a free port, for one answer, and prints it with the settings. Raises
    :class:`Failure`."""
    failures = _Failures()
    package_log = logging.getLogger(__package__)
    package_log.addHandler(failures)
    sockets = listen("127.0.0.1", 0)
    server = start(app, sockets)
    try:
        status, answer = await _ask(url_of(sockets[0]), app.server_settings)
    finally:
        await stop(server, app, SHUTDOWN_SECONDS)
        package_log.removeHandler(failures)
    if status != 200:
        answered = f"POST /generate answered {status} {json.dumps(answer)}, expected 200"
        raise Failure("; ".join([f"the check failed: {answered}", *failures.texts]))
    figures = f"{answer['tokens']} tokens in {answer['seconds']:.3f} s"
    try:
        print(as_file(options))
        print(f"{PROMPT!r} continues with {answer['text']!r}: {figures}", flush=True)
    except OSError as error:
        silence_stdout()
        raise Failure(f"cannot write the answer to stdout: {error.strerror}") from None


async def _ask(url: str, settings: Settings) -> tuple[int, dict[str, Any]]:
    """Status and body of the answer to PROMPT."""
    headers = {"Authorization": f"Bearer {settings.api_keys[0]}"} if settings.api_keys else {}
    body = {"prompt": PROMPT, "max_tokens": TOKENS, "temperature": 0}
    client = AsyncHTTPClient()
    try:
        response = await client.fetch(
            f"{url}/generate",
            method="POST",
            headers=headers,
            body=json.dumps(body),
            request_timeout=_SECONDS,
            raise_error=False,
        )
    finally:
        client.close()
    return response.code, json.loads(response.body or b"null")
