"""What can be set, and where: on the command line, in the environment, in a file, in this order.

Needs the standard library alone.
"""

from __future__ import annotations

import argparse
import math
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .settings import ANY, Settings

# Not KAEL_SERVER_: Kubernetes sets KAEL_SERVER_PORT, to an address, for a service that is called kael-server.
ENVIRONMENT_PREFIX = "KAEL_SERVE_"

_LONGEST_KEY = 1000
_MAX_DIGITS = 20
KEY_RULE = f"1 to {_LONGEST_KEY} ASCII characters without spaces"

_SEPARATOR = ","  # of several values in one variable of the environment


def _whole_number(what: str, lowest: int, highest: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        is_number = text.isascii() and text.isdigit() and len(text) <= _MAX_DIGITS
        if not (is_number and lowest <= int(text) <= highest):
            raise argparse.ArgumentTypeError(f"{text!r} is no {what}, expected {lowest} to {highest}")
        return int(text)

    return read


def _seconds(lowest: float, or_none: bool = False) -> Callable[[str], float]:
    highest = 86400.0
    expected = f"{'0 or ' if or_none else ''}{lowest:g} to {highest:g}"

    def read(text: str) -> float:
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not (lowest <= number <= highest or (or_none and number == 0)):
            raise argparse.ArgumentTypeError(f"{text!r} is no time in seconds, expected {expected}")
        return number

    return read


def _one_of(*values: Any) -> Callable[[str], Any]:
    names = [str(value) for value in values]

    def read(text: str) -> Any:
        if text not in names:
            raise argparse.ArgumentTypeError(f"{text!r} is unknown, expected {' or '.join(names)}")
        return values[names.index(text)]

    return read


_HOST_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*")
_ADDRESS = re.compile(r"\[[0-9a-f:.]+\]")
_ORIGIN = re.compile(r"(https?)://(.+?)(?::([0-9]{1,5}))?")
_DEFAULT_PORTS = {"http": "80", "https": "443"}  # which browsers leave out


def _as_in_headers(host: str) -> str:
    """A host name as browsers send it: in lower case, in ASCII, without the dot of the root."""
    try:
        return host.lower().encode("idna").decode().removesuffix(".")
    except UnicodeError:
        return ""


def _origin(text: str) -> str:
    if text == ANY:
        return text
    parts = _ORIGIN.fullmatch(text.lower())
    scheme, host, port = parts.groups() if parts is not None else ("", "", None)
    host = host if _ADDRESS.fullmatch(host) else _as_in_headers(host)
    if not (_HOST_NAME.fullmatch(host) or _ADDRESS.fullmatch(host)):
        raise argparse.ArgumentTypeError(
            f"{text!r} is no origin, expected one such as https://example.org, or *"
        )
    return f"{scheme}://{host}" + (f":{port}" if port and port != _DEFAULT_PORTS[scheme] else "")


def _host_name(text: str) -> str:
    name = ANY if text == ANY else _as_in_headers(text)
    if name != ANY and not _HOST_NAME.fullmatch(name):
        raise argparse.ArgumentTypeError(f"{text!r} is no host name, expected one such as example.org, or *")
    return name


def _flag(text: str) -> bool:
    if text not in ("true", "false"):
        raise argparse.ArgumentTypeError(f"{text!r} is unknown, expected true or false")
    return text == "true"


def _key(text: str) -> str:
    if not is_key(text):
        raise argparse.ArgumentTypeError(f"the key is not {KEY_RULE}")
    return text


def is_key(text: str) -> bool:
    """Whether a header can hold it, and a line of a file."""
    return 0 < len(text) <= _LONGEST_KEY and text.isascii() and text.isprintable() and " " not in text


def _name(what: str) -> Callable[[str], str]:
    """A variable that is not set must not mean something else, such as every address of this machine."""

    def read(text: str) -> str:
        if not text:
            raise argparse.ArgumentTypeError(f"{what} is empty")
        if "\0" in text:
            raise argparse.ArgumentTypeError(f"{what} holds a NUL character, which the system cannot take")
        return text

    return read


@dataclass(frozen=True)
class Option:
    """One setting: ``--name`` as an argument, ``KAEL_SERVE_NAME`` in the environment, ``name`` in a file."""

    name: str
    metavar: str
    help: str
    read: Callable[[str], Any]  # raises ArgumentTypeError
    default: Any = None
    many: bool = False  # given again, or as a list, it holds several values, and none without
    secret: bool = False  # never shown

    @property
    def is_flag(self) -> bool:
        """Whether it takes no value on the command line, where it stands for true."""
        return self.read is _flag

    @property
    def attribute(self) -> str:
        """Its name in the namespace of the options, and among the fields of Settings."""
        return self.name.replace("-", "_") + ("s" if self.many else "")

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.name.replace("-", "_").upper()


_DEFAULTS = Settings()

OPTIONS = (
    Option(
        "data",
        "DIR",
        "folder with model.safetensors, vocab.json, merges.txt and, unless it is GPT-2 small, config.json "
        "(default: the small model that kael ships)",
        _name("the name of the folder"),
    ),
    Option(
        "device",
        "{cpu,cuda}",
        "where to compute; this build has no cuda",
        _one_of("cpu", "cuda"),
        "cpu",
    ),
    Option(
        "dtype",
        "{float32,bfloat16,int8,int4}",
        "what to keep and multiply the weights in: with a large model bfloat16 generates about twice as fast "
        "as float32 from weights of half the size, int8 four times (a quarter), int4 six (a seventh; its "
        "text is noticeably worse)",
        _one_of("float32", "bfloat16", "int8", "int4"),
        "float32",
    ),
    Option(
        "threads",
        "N",
        "threads to compute with, which change the time but no answer (default: KAEL_NUM_THREADS, else all "
        "processors)",
        _whole_number("number of threads", 1, 256),
    ),
    Option(
        "host",
        "ADDRESS",
        "address to listen on; without a key, anybody who can reach it can use the model",
        _name("the address"),
        "127.0.0.1",
    ),
    Option(
        "port",
        "PORT",
        "port to listen on, 0 for a free one",
        _whole_number("port", 0, 65535),
        8000,
    ),
    Option(
        "api-key",
        "KEY",
        "key that requests must have (Authorization: Bearer KEY), but for /health and /ready; may be given "
        "more than once. Every user of this machine can see it among the arguments: rather --api-key-file",
        _key,
        many=True,
        secret=True,
    ),
    Option(
        "api-key-file",
        "FILE",
        "file with such keys, one a line",
        _name("the name of the file"),
    ),
    Option(
        "tls-certificate",
        "FILE",
        "serve HTTPS with the certificate in this file, and those that vouch for it, in PEM",
        _name("the name of the file"),
    ),
    Option(
        "tls-key",
        "FILE",
        "its private key in PEM, unless it stands in the same file",
        _name("the name of the file"),
    ),
    Option(
        "allowed-host",
        "NAME",
        "host name under which it may be asked, beside addresses and names without a dot; may be given more "
        "than once, * for any. Without one, any name will do where it listens beyond loopback",
        _host_name,
        many=True,
    ),
    Option(
        "cors-origin",
        "ORIGIN",
        "origin whose web pages may ask and read the answers, such as https://example.org; may be given more "
        "than once, * for any",
        _origin,
        many=True,
    ),
    Option(
        "busy-status",
        "{429,503}",
        "status of the answer while another generation runs; 503 is for balancers that try the next server "
        "only then",
        _one_of(429, 503),
        _DEFAULTS.busy_status,
    ),
    Option(
        "queue",
        "N",
        "requests that may wait for the model while another generation runs; those beyond are refused",
        _whole_number("number of requests", 0, 1000),
        _DEFAULTS.queue,
    ),
    Option(
        "no-prefix-cache",
        "",
        "compute every prompt from its first token on, also where the one before began alike: else a client "
        "can tell from the times what others asked before",
        _flag,
        _DEFAULTS.no_prefix_cache,
    ),
    Option(
        "speculate",
        "N",
        "guess up to N tokens from what followed earlier in the text and try them at once: the same answers, "
        "sooner where they repeat themselves; 8 is a good N",
        _whole_number("number of tokens", 0, 64),
        _DEFAULTS.speculate,
    ),
    Option(
        "log-format",
        "{text,json}",
        "what a line of the log, on standard error, is",
        _one_of("text", "json"),
        "text",
    ),
    Option(
        "max-body-bytes",
        "N",
        "largest body of a request",
        _whole_number("number of bytes", 1024, 1 << 30),
        _DEFAULTS.max_body_bytes,
    ),
    Option(
        "ping-seconds",
        "S",
        "time between two comments of a stream that has nothing to say, 0 for none",
        _seconds(0.1, or_none=True),
        _DEFAULTS.ping_seconds,
    ),
    Option(
        "stall-seconds",
        "S",
        "time granted to a client that takes nothing of its answer, once that is whole",
        _seconds(0.01),
        _DEFAULTS.stall_seconds,
    ),
    Option(
        "idle-seconds",
        "S",
        "time for a connection to be idle, or to send the headers of a request",
        _seconds(0.01),
        _DEFAULTS.idle_seconds,
    ),
    Option(
        "body-seconds",
        "S",
        "time for the body of a request",
        _seconds(0.01),
        _DEFAULTS.body_seconds,
    ),
)

CONFIG = Option(
    "config",
    "FILE",
    'file with settings, in TOML: a line such as port = 9000 or data = "models/gpt2" for each',
    _name("the name of the file"),
)


class Mistake(Exception):
    """A setting that is not as it must be, in one line that says where it stands."""


class NoFile(Exception):
    """The file of settings cannot be read, in one line."""


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """Those that look like settings and are none: misspelt, or of somebody else."""
    known = {option.variable for option in (*OPTIONS, CONFIG)}
    return sorted(name for name in environment if name.startswith(ENVIRONMENT_PREFIX) and name not in known)


def complete(options: argparse.Namespace, environment: Mapping[str, str]) -> None:
    """Fills in what the command line has left at None. ``options.sources`` says of each option where it was
    set. Raises :class:`Mistake` and :class:`NoFile`."""
    options.sources = {}
    _complete_option(options, CONFIG, environment, {})
    in_file = {} if options.config is None else _read_file(options.config)
    for option in OPTIONS:
        _complete_option(options, option, environment, in_file)


def _complete_option(
    options: argparse.Namespace, option: Option, environment: Mapping[str, str], in_file: dict[str, list[str]]
) -> None:
    value = getattr(options, option.attribute)
    if value is not None:
        source, value = "flag", tuple(value) if option.many else value
    elif option.variable in environment:
        text = environment[option.variable]
        # A secret may hold the separator, and its halves would be weak ones.
        texts = text.split(_SEPARATOR) if option.many and not option.secret else [text]
        source, value = "environment", _from_texts(option, texts, option.variable)
    elif option.name in in_file:
        place = f"{_shown(options.config)}: {option.name}"
        source, value = "file", _from_texts(option, in_file[option.name], place)
    else:
        source, value = "default", () if option.many else option.default
    options.sources[option.name] = source
    setattr(options, option.attribute, value)


def _from_texts(option: Option, texts: list[str], place: str) -> Any:
    try:
        values = tuple(option.read(text) for text in texts)
    except argparse.ArgumentTypeError as error:
        raise Mistake(f"{place}: {error}") from None
    return values if option.many else values[0]


def _read_file(name: str) -> dict[str, list[str]]:
    """The settings in a file, as the texts that a command line would have. Raises what ``complete`` does."""
    try:
        with open(name, "rb") as file:
            values = tomllib.load(file)
    except OSError as error:
        raise NoFile(f"--config: cannot read {name!r}: {error.strerror}") from None
    except ValueError as error:  # of TOML, of UTF-8, of a number with more digits than Python reads
        raise Mistake(f"{_shown(name)} is not TOML: {error}") from None
    except RecursionError:
        raise Mistake(f"{_shown(name)}: is nested too deeply") from None
    known = {option.name: option for option in OPTIONS}
    for setting in values:
        if setting not in known:
            raise Mistake(f"{_shown(name)}: {setting!r} is no setting")
    return {setting: _texts(name, known[setting], value) for setting, value in values.items()}


def _shown(name: str) -> str:
    """A file's name, which a terminal must not obey."""
    return name if name.isprintable() else repr(name)


def _texts(file: str, option: Option, value: Any) -> list[str]:
    values = value if isinstance(value, list) and option.many else [value]
    for item in values:
        if option.is_flag != isinstance(item, bool) or not isinstance(item, str | int | float):
            expected = "a text or a number" + (", or a list of them" if option.many else "")
            raise Mistake(
                f"{_shown(file)}: {option.name}: expected {'true or false' if option.is_flag else expected}"
            )
        if option.secret and not isinstance(item, str):  # 1 and 1.0 would be others than they look
            raise Mistake(f"{_shown(file)}: {option.name}: expected a text, in quotes")
    return [str(item).lower() if isinstance(item, bool) else str(item) for item in values]
