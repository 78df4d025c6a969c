"""Reads kael.h: functions, structs, callbacks and constants, as text; just the C that it is written in."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple


class Function(NamedTuple):
    """A function, or a callback's type."""

    result: str
    arguments: tuple[str, ...]


class Header(NamedTuple):
    functions: dict[str, Function]
    callbacks: dict[str, Function]
    structs: dict[str, list[tuple[str, str]]]
    constants: dict[str, int]
    aliases: dict[str, str]
    opaque: set[str]


def read(path: Path) -> Header:
    text = re.sub(r"/\*.*?\*/", " ", path.read_text(encoding="utf-8"), flags=re.DOTALL)
    constants = {name: int(value) for name, value in re.findall(r"#define (KAEL_\w+) (\d+)\s", text)}
    text = re.sub(r"^\s*#.*$", "", text, flags=re.MULTILINE)
    for body in re.findall(r"enum \{(.*?)\}", text, flags=re.DOTALL):
        constants |= {name: int(value) for name, value in re.findall(r"(\w+)\s*=\s*(-?\d+)", body)}
    structs = {
        name: _fields(body, constants)
        for body, name in re.findall(r"typedef struct \w+ \{(.*?)\} (\w+);", text, flags=re.DOTALL)
    }
    return Header(
        functions={
            name: Function(_clean(result), _arguments(arguments))
            for result, name, arguments in re.findall(
                r"KAEL_API ([\w ]+[ *]+)(kael_\w+)\((.*?)\);", text, re.DOTALL
            )
        },
        callbacks={
            name: Function(_clean(result), _arguments(arguments))
            for result, name, arguments in re.findall(
                r"typedef (\w+\*?) \(\*(\w+)\)\((.*?)\);", text, re.DOTALL
            )
        },
        structs=structs,
        constants=constants,
        aliases={name: base for base, name in re.findall(r"typedef (\w+_t) (\w+);", text)},
        opaque=set(re.findall(r"typedef struct (\w+) \1;", text)),
    )


def _fields(body: str, constants: dict[str, int]) -> list[tuple[str, str]]:
    fields = []
    for declaration in filter(None, (part.strip() for part in body.split(";"))):
        array = re.fullmatch(r"(.*?)(\w+)\[(\w+)\]", declaration, re.DOTALL)
        if array:
            fields.append((array[2], f"{_clean(array[1])}[{constants[array[3]]}]"))
        else:
            kind, name = re.fullmatch(r"(.*[\s*])(\w+)", declaration, re.DOTALL).groups()
            fields.append((name, _clean(kind)))
    return fields


def _arguments(text: str) -> tuple[str, ...]:
    if _clean(text) == "void":
        return ()
    return tuple(
        _clean(re.fullmatch(r"(.*[\s*])\w+", part.strip(), re.DOTALL)[1]) for part in text.split(",")
    )


def _clean(kind: str) -> str:
    """`const char * *` as `const char**`."""
    return re.sub(r"\s*\*", "*", " ".join(kind.split()))
