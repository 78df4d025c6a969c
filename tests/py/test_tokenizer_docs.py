"""What docs/tokenizer.md shows is what happens."""

from __future__ import annotations

import doctest
import json
import re
from pathlib import Path

import kael


def test_the_examples_of_the_page(root: Path):
    failed, tried = doctest.testfile(
        str(root / "docs" / "tokenizer.md"), module_relative=False, encoding="utf-8"
    )
    assert tried >= 7
    assert failed == 0


def test_gpt2s_own_ids_are_the_ones_that_the_page_gives(root: Path, shared: Path):
    page = (root / "docs" / "tokenizer.md").read_text(encoding="utf-8")
    (ids,) = re.findall(r'of GPT-2 itself "Hello world" is `(.*?)`', page)
    tokenizer = kael.BpeTokenizer.from_pretrained(shared / "data" / "tokenizer-gpt2")
    assert tokenizer.encode("Hello world") == json.loads(ids)
