"""What is pinned, and what must not be."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def pins(name):
    """Package to version, as numbers."""
    text = (ROOT / name).read_text(encoding="utf-8")
    found = re.findall(r"^([\w.-]+)==(\d+(?:\.\d+)*)", text, re.MULTILINE)
    return {package: tuple(map(int, version.split("."))) for package, version in found}


@pytest.mark.parametrize("name", ["server/requirements.txt", "packaging/requirements/test.txt"])
def test_tornado_is_one_whose_known_holes_are_closed(name):
    # B137, B139, B140, B142: smuggling, floods of the log, header injection, quadratic parsers.
    assert pins(name)["tornado"] >= (6, 5, 10)


def test_no_other_tornado_is_accepted_by_the_package():
    text = (ROOT / "server" / "pyproject.toml").read_text(encoding="utf-8")
    assert '"tornado>=6.5.10"' in text


def test_setuptools_still_has_what_pytest_tornado_needs():
    assert pins("packaging/requirements/test.txt")["setuptools"] < (82,)  # T31
