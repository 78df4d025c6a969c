"""The one error type of kael.

Rule for everything in this package: a value of the wrong *type* is a ``TypeError``, as everywhere in Python
(``True`` is not a number here); whatever else goes wrong is a :class:`Error`, with a code to branch on.
"""

from __future__ import annotations

import enum

_ESCAPES = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))} | {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
}


def one_line(text: str) -> str:
    """``text`` fit for one line of a message: a path or a name in it may hold line ends and control
    characters, which are escaped as in Python.
    """
    return text.translate(_ESCAPES)


class ErrorCode(enum.IntEnum):
    """What kind of failure an :class:`Error` reports. The values are those of ``kael_status`` in
    ``kael.h``.
    """

    INVALID_ARGUMENT = 1  #: a value outside what the function allows
    NOT_FOUND = 2  #: a file, folder or name that does not exist
    IO_ERROR = 3  #: the operating system refused to open, read, map or write
    INVALID_FILE = 4  #: content that breaks its format, or disagrees with another file
    UNSUPPORTED = 5  #: valid, but something that this build or version does not do
    OUT_OF_MEMORY = 6
    CALLBACK_FAILED = 7  #: a callback answered that it failed
    INTERNAL = 8  #: a bug in kael


class Error(Exception):
    """A failure in kael.

    ``str(error)`` is the whole text. An error of the native library has the form ``kael error at FILE:LINE:
    check 'CONDITION' failed: MESSAGE``; one that this package finds itself, before it calls the library, is
    ``kael error: MESSAGE``. ``message`` is the MESSAGE part, one line that names what was wrong, what was
    expected and where. ``code`` is an :class:`ErrorCode`.
    """

    __module__ = "kael"

    def __init__(
        self, message: str, code: ErrorCode = ErrorCode.INVALID_ARGUMENT, text: str | None = None
    ) -> None:
        message = one_line(message)
        super().__init__(one_line(text) if text is not None else f"kael error: {message}")
        self.message = message
        self.code = code

    def __reduce__(self) -> tuple[type[Error], tuple[str, ErrorCode, str]]:
        return (type(self), (self.message, self.code, str(self)))


ErrorCode.__module__ = "kael"
