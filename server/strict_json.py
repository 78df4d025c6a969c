"""JSON from clients, strictly. Nothing that goes out of here holds a value, or a name, from the body."""

from __future__ import annotations

import json
import math
from typing import Any, NoReturn

from .errors import RequestError, invalid

# Of an integer. More than the limit of any field has.
_READ_DIGITS = 100


def load(body: bytes) -> Any:
    """The JSON value of a body. Python's reader takes more than JSON is: see each refusal. Raises
    :class:`RequestError` (422)."""
    try:
        text = body.decode("utf-8")  # json.loads(bytes) would guess UTF-16 and let surrogates through
    except UnicodeDecodeError:
        raise broken("utf8", "must be UTF-8") from None
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            parse_int=_integer,
            parse_float=_finite_float,
            object_pairs_hook=_unique_names,
        )
        if "\\u" in text:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise broken("unicode", "must not hold half of a surrogate pair") from None
    except RecursionError:
        raise broken("depth", "is nested too deeply") from None
    except json.JSONDecodeError:
        raise broken("json", "must be valid JSON") from None
    return value


def broken(rule: str, message: str) -> RequestError:
    """The body as a whole is not what it must be."""
    return invalid([{"field": "", "rule": rule, "message": message}])


def _refuse_constant(_: str) -> NoReturn:
    raise broken("number", "must not hold NaN or Infinity")


def _integer(digits: str) -> int:
    """One of so many digits is out of every range, however it goes on; Python reads 4,300 of them at most."""
    return int(digits[:_READ_DIGITS])


def _finite_float(digits: str) -> float:
    number = float(digits)
    if not math.isfinite(number):
        raise broken("number", "must not hold a number beyond the range of a double")
    return number


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    if len(names) < len(pairs):
        raise broken("duplicate", "must not hold a name twice in one object")
    return names
