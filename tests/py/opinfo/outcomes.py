"""What became of one check of one sample."""

from __future__ import annotations

from dataclasses import dataclass

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass(frozen=True)
class Outcome:
    """``check`` is ``forward``, ``gradient``, ``in place``, ``refusal`` or the name of a layout. ``text``
    says what is wrong, or why the check was skipped.
    """

    operator: str
    dtype: str
    check: str
    sample: str
    status: str
    text: str = ""
