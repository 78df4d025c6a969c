"""From the options of the program to what its parts are made with."""

from __future__ import annotations

import argparse
import dataclasses
import json
import ssl
from typing import Any

from .access import is_loopback
from .arguments import Failure
from .options import KEY_RULE, OPTIONS, is_key
from .settings import Settings


def settings_of(options: argparse.Namespace) -> Settings:
    """Reads the file of keys. Raises :class:`Failure`."""
    names = {field.name for field in dataclasses.fields(Settings)}
    given = {option.attribute: getattr(options, option.attribute) for option in OPTIONS}
    given["api_keys"] += _read_keys(options.api_key_file)
    if not options.allowed_hosts and not is_loopback(options.host):
        given["allowed_hosts"] = None
    return Settings(**{name: value for name, value in given.items() if name in names})


def tls_of(options: argparse.Namespace) -> ssl.SSLContext | None:
    """What HTTPS needs; None for HTTP. Raises :class:`Failure`."""
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


def _as_toml(value: Any) -> str:
    """TOML's texts are JSON's but for two kinds of characters: DEL is escaped, half a surrogate pair, with
    which Python writes a byte that is no UTF-8, cannot be."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def as_file(options: argparse.Namespace) -> str:
    """What is set and where, as a file of --config has it; secrets and what has no value as comments."""
    lines = []
    for option in OPTIONS:
        value, source = getattr(options, option.attribute), options.sources[option.name]
        if option.secret and value:
            line = f"# {option.name} is set"
        elif isinstance(value, str) and not _is_unicode(value):
            line = f"# {option.name} is {value!r}, which is not UTF-8"
        elif value is None or value == ():
            line = f"# {option.name} is not set"
        else:
            line = f"{option.name} = {_as_toml(value)}"
        lines.append(f"{line}  # {source}")
    return "\n".join(lines)


def _is_unicode(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)
