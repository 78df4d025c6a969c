"""What the command line does, and one line for each way in which it fails."""

from __future__ import annotations

import argparse
import asyncio
import io
import json
import logging
import os
import shlex
import sys

import kael

from . import logs
from .access import is_loopback
from .app import load_app
from .arguments import EXIT_FAILED, PROGRAM, Failure, silence_stdout, tell, version_line
from .check import PROMPT, check
from .configuration import settings_of, tls_of
from .generator import Generator
from .listening import listen, url_of
from .options import unknown_variables
from .serve import serve
from .settings import Settings

EXIT_DONE = 0

log = logging.getLogger(__name__)

# How long a thread may keep the interpreter while another waits for it. Python's 5 ms would be felt in every
# token that the loop passes on; a library must not change it for its host, a program may.
SWITCH_INTERVAL_SECONDS = 0.0005


def run(options: argparse.Namespace) -> int:
    """Does what ``arguments.parse`` has read and returns the exit code."""
    if isinstance(sys.stdout, io.TextIOWrapper):  # which may lack characters of a model's name and text
        sys.stdout.reconfigure(errors="backslashreplace")
    if options.version:
        tell(version_line(kael.__version__))
        return EXIT_DONE
    try:
        return _run(options)
    except kael.Error as error:
        text = error.message
    except Failure as error:
        text = str(error)
    except RuntimeError as error:
        if str(error) != "can't start new thread":  # Python's, which has no class of its own
            raise
        text = "no thread could be started: the system has no memory for it, or grants this user no more"
    print(f"{PROGRAM}: {text}", file=sys.stderr)
    return EXIT_FAILED


def _run(options: argparse.Namespace) -> int:
    settings, tls = settings_of(options), tls_of(options)
    if options.threads is not None:
        kael.set_num_threads(options.threads)
    folder = kael.default_model_path() if options.data is None else options.data
    app = load_app(folder, options.device, settings, options.dtype)
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    if options.check:
        asyncio.run(check(app, options))
        return EXIT_DONE
    sockets = listen(options.host, options.port)
    with logs.to_stderr(options.log_format):
        for name in unknown_variables(os.environ):
            log.warning(
                "the variable %s is no setting, and does nothing: --help names those that there are", name
            )
        if not settings.api_keys and not is_loopback(options.host):
            log.warning(
                "ANYBODY who can reach port %d of %s can use this model: set --api-key-file, or listen on "
                "127.0.0.1",
                sockets[0].getsockname()[1],
                options.host,
            )
        url = url_of(sockets[0], "https" if tls else "http")
        ended = asyncio.run(serve(app, sockets, lambda: _announce(url, settings, app.generator), tls))
    if not ended:
        # The worker thread is inside the library and would keep the interpreter from ending.
        os._exit(EXIT_FAILED)
    return EXIT_DONE


def _announce(url: str, settings: Settings, generator: Generator) -> None:
    # Half of a small context is left to the prompt.
    body = shlex.quote(json.dumps({"prompt": PROMPT, "max_tokens": max(min(32, generator.context // 2), 1)}))
    key = " -H 'Authorization: Bearer KEY'" if settings.api_keys else ""
    request = f"curl -s {url}/generate{key} -d {body}"
    try:
        print(
            f"kael serves on {url} until Ctrl-C ({generator.name}, {generator.dtype}) - open it in a "
            f"browser, or try: {request}",
            flush=True,
        )
    except OSError as error:  # nobody reads it, which is no reason not to serve
        log.warning("cannot announce %s: %s", url, error.strerror)
        silence_stdout()
