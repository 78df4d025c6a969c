"""What the command line does, and one line for each way in which it fails."""

from __future__ import annotations

import argparse
import asyncio
import dataclasses
import errno
import json
import logging
import os
import shlex
import socket
import ssl
import sys
from typing import Any

from tornado.httpclient import AsyncHTTPClient
from tornado.netutil import bind_sockets

import kael

from . import logs
from .access import is_loopback
from .app import KaelApplication, load_app
from .arguments import EXIT_FAILED, PROGRAM, silence_stdout, tell, version_line
from .options import KEY_RULE, OPTIONS, is_key
from .serve import SHUTDOWN_SECONDS, serve, start, stop
from .settings import Settings

EXIT_DONE = 0

log = logging.getLogger(__name__)

# How long a thread may keep the interpreter while another waits for it. Python's 5 ms would be felt in every
# token that the loop passes on; a library must not change it for its host, a program may.
SWITCH_INTERVAL_SECONDS = 0.0005

CHECK_PROMPT = "Once upon a time"
CHECK_TOKENS = 8
_CHECK_SECONDS = 600.0  # enough for a large model on a slow machine


class Failure(Exception):
    """Ends the program with its one line on stderr and EXIT_FAILED."""


def run(options: argparse.Namespace) -> int:
    """Does what ``arguments.parse`` has read and returns the exit code."""
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
    settings, tls = _settings(options), _tls(options)
    folder = kael.default_model_path() if options.data is None else options.data
    app = load_app(folder, options.device, settings)
    sys.setswitchinterval(SWITCH_INTERVAL_SECONDS)
    if options.check:
        return asyncio.run(_check(app, options))
    sockets = _listen(options.host, options.port)
    with logs.to_stderr(options.log_format):
        if not settings.api_keys and not is_loopback(options.host):
            log.warning(
                "ANYBODY who can reach port %d of %s can use this model: set --api-key-file, or listen on "
                "127.0.0.1",
                sockets[0].getsockname()[1],
                options.host,
            )
        url = _url(sockets[0], "https" if tls else "http")
        ended = asyncio.run(serve(app, sockets, lambda: _announce(url, settings), tls))
    if not ended:
        # The worker thread is inside the library and would keep the interpreter from ending.
        os._exit(EXIT_FAILED)
    return EXIT_DONE


def _settings(options: argparse.Namespace) -> Settings:
    names = {field.name for field in dataclasses.fields(Settings)}
    given = {option.attribute: getattr(options, option.attribute) for option in OPTIONS}
    given["api_keys"] += _read_keys(options.api_key_file)
    if not options.allowed_hosts and not is_loopback(options.host):
        given["allowed_hosts"] = None
    return Settings(**{name: value for name, value in given.items() if name in names})


def _tls(options: argparse.Namespace) -> ssl.SSLContext | None:
    certificate, key = options.tls_certificate, options.tls_key
    if certificate is None:
        if key is not None:
            raise Failure("--tls-key needs --tls-certificate")
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password=_no_password)
    except OSError as error:  # as those of ssl are
        files = repr(certificate) if key is None else f"{certificate!r} and {key!r}"
        reason = error.strerror if error.filename is None or error.strerror else str(error)
        raise Failure(f"--tls-certificate: cannot use {files} for TLS: {reason}") from None
    return context


def _no_password() -> str:
    """Or else the terminal is asked."""
    raise Failure("--tls-key: the key is encrypted, expected one without a password")


def _read_keys(name: str | None) -> tuple[str, ...]:
    if name is None:
        return ()
    try:
        with open(name, encoding="utf-8") as file:
            keys = tuple(key for line in file if (key := line.strip()))
    except OSError as error:
        raise Failure(f"--api-key-file: cannot read {name!r}: {error.strerror}") from None
    except UnicodeDecodeError:
        keys = ()
    if not keys or not all(map(is_key, keys)):
        raise Failure(f"--api-key-file: {name!r} has no keys, expected one a line, of {KEY_RULE}")
    return keys


def _listen(host: str, port: int) -> list[socket.socket]:
    try:
        return bind_sockets(port, host)
    except UnicodeError:
        raise Failure(f"{host!r} is no host name, expected an address of this machine") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Failure(
                f"port {port} of {host} is in use, give another one with --port, or 0 for a free one"
            ) from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise Failure(f"port {port} of {host} is not permitted, expected one from 1024 on") from None
        raise Failure(
            f"cannot listen on {host}: {error.strerror}, expected an address of this machine"
        ) from None


def _announce(url: str, settings: Settings) -> None:
    body = shlex.quote(json.dumps({"prompt": CHECK_PROMPT, "max_tokens": 32}))
    key = " -H 'Authorization: Bearer KEY'" if settings.api_keys else ""
    try:
        print(f"kael serves on {url} until Ctrl-C - try: curl -s {url}/generate{key} -d {body}", flush=True)
    except OSError as error:  # nobody reads it, which is no reason not to serve
        log.warning("cannot announce %s: %s", url, error.strerror)
        silence_stdout()


def _url(listening: socket.socket, scheme: str = "http") -> str:
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - everywhere; this machine is one place of it
        host = "127.0.0.1" if listening.family == socket.AF_INET else "::1"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


class _Failures(logging.Handler):
    """Keeps the errors that the log would show, for the one line in which a check fails."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        text = error.message if isinstance(error, kael.Error) else str(error or record.getMessage())
        self.texts.append(" ".join(text.split()))


def _configuration(options: argparse.Namespace) -> str:
    """What is set and where, as a file of --config has it; secrets and what has no value as comments."""
    lines = []
    for option in OPTIONS:
        value, source = getattr(options, option.attribute), options.sources[option.name]
        if option.secret and value:
            line = f"# {option.name} is set"
        elif value is None or value == ():
            line = f"# {option.name} is not set"
        else:
            line = f"{option.name} = {json.dumps(value)}"
        lines.append(f"{line}  # {source}")
    return "\n".join(lines)


async def _check(app: KaelApplication, options: argparse.Namespace) -> int:
    """Asks the server, on a free port, for one answer, and prints what it is set to."""
    failures = _Failures()
    package_log = logging.getLogger(__package__)
    package_log.addHandler(failures)
    sockets = _listen("127.0.0.1", 0)
    server = start(app, sockets)
    try:
        status, answer = await _ask(_url(sockets[0]), app.server_settings)
    finally:
        await stop(server, app, SHUTDOWN_SECONDS)
        package_log.removeHandler(failures)
    if status != 200:
        answered = f"POST /generate answered {status} {json.dumps(answer)}, expected 200"
        raise Failure("; ".join([f"the check failed: {answered}", *failures.texts]))
    figures = f"{answer['tokens']} tokens in {answer['seconds']:.3f} s"
    try:
        print(_configuration(options))
        print(f"{CHECK_PROMPT!r} continues with {answer['text']!r}: {figures}", flush=True)
    except OSError as error:
        silence_stdout()
        raise Failure(f"cannot write the answer to stdout: {error.strerror}") from None
    return EXIT_DONE


async def _ask(url: str, settings: Settings) -> tuple[int, dict[str, Any]]:
    """Status and body of the answer to CHECK_PROMPT."""
    headers = {"Authorization": f"Bearer {settings.api_keys[0]}"} if settings.api_keys else {}
    body = {"prompt": CHECK_PROMPT, "max_tokens": CHECK_TOKENS, "temperature": 0}
    client = AsyncHTTPClient()
    try:
        response = await client.fetch(
            f"{url}/generate",
            method="POST",
            headers=headers,
            body=json.dumps(body),
            request_timeout=_CHECK_SECONDS,
            raise_error=False,
        )
    finally:
        client.close()
    return response.code, json.loads(response.body or b"null")
