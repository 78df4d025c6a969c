"""The Python examples in the documentation run, and print what the pages say."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

DOCS = Path(__file__).resolve().parents[2] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
# What needs a server that runs is tried beside the server's own tests.
ELSEWHERE = {DOCS / "server.md"}
PAGES = sorted(
    path for path in DOCS.rglob("*.md") if path not in ELSEWHERE and BLOCK.search(path.read_text("utf-8"))
)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(DOCS)) for page in PAGES])
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch, request):
    """All blocks of a page in one namespace; those of a session must print what the page shows."""
    monkeypatch.chdir(tmp_path)
    namespace = {"__name__": "__main__"}
    text = page.read_text(encoding="utf-8")
    if '"gpt2/' in text:  # GPT-2's own vocabulary, which the project does not hold
        (tmp_path / "gpt2").symlink_to(request.getfixturevalue("shared") / "data" / "tokenizer-gpt2")
    for block in BLOCK.finditer(text):
        line = text[: block.start()].count("\n") + 1
        if ">>> " in block[1]:
            session = doctest.DocTestParser().get_doctest(block[1], namespace, page.name, str(page), line)
            runner = doctest.DocTestRunner(verbose=False, optionflags=doctest.FAIL_FAST)
            report = []
            runner.run(session, out=report.append, clear_globs=False)
            assert runner.summarize(verbose=False).failed == 0, "".join(report)
            namespace = session.globs
        else:
            exec(compile("\n" * line + block[1], str(page), "exec"), namespace)


def test_the_page_for_python_is_among_them():
    assert DOCS / "python.md" in PAGES
