"""What docs/tokenizer.md shows is what happens."""

from __future__ import annotations

import doctest
from pathlib import Path


def test_the_examples_of_the_page(root: Path, shared: Path, tmp_path: Path, monkeypatch):
    (tmp_path / "gpt2").symlink_to(shared / "data" / "tokenizer-gpt2")
    monkeypatch.chdir(tmp_path)
    failed, tried = doctest.testfile(
        str(root / "docs" / "tokenizer.md"), module_relative=False, encoding="utf-8"
    )
    assert tried >= 6
    assert failed == 0
