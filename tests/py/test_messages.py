"""What refuses something also says what it would have accepted."""

from __future__ import annotations

import pathlib
import re
import runpy

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARSER = runpy.run_path(str(ROOT / "scripts/raising-places"))

NATIVE = ("tensor", "autograd", "operators", "nn")
PYTHON = (
    "_apply", "_autograd", "_borrowing", "_creation", "_dlpack", "_functions", "_gradcheck", "_hooks",
    "_indexing", "_layers", "_nodes", "_operators", "_rearranging", "_reductions", "_state", "_tensor",
    "array_api/*", "nn/*", "optim",
)  # fmt: skip

EXCUSED = {
    ("native/src/autograd/elementwise.cpp", "no derivative is known of"): "a bug in kael",
    ("native/src/autograd/engine.cpp", " gradients for "): "a bug in kael",
    ("native/src/tensor/elementwise.cpp", "no elementwise operator"): "a bug in kael",
    ("py/kael/_borrowing.py", "frombuffer: {error}"): "NumPy's words",
    ("py/kael/_nodes.py", "has no constructor"): "names what gives one",
    ("py/kael/_tensor.py", "has no constructor"): "names what makes one",
    ("py/kael/nn/_module.py", "has no attribute"): "Python's words",
}  # fmt: skip


def says_what_is_accepted(text: str) -> bool:
    """In its words, which stand in quotes; a variable may have any name."""
    words = " ".join(re.findall(r'"((?:[^"\\]|\\.)*)"', text))
    return re.search(r"\b(expected|must)\b", re.sub(r"\{[^}]*\}", "", words)) is not None


def test_every_refusal_says_what_would_have_been_accepted():
    places = []
    for folder in NATIVE:
        sources = [*ROOT.glob(f"native/src/{folder}/**/*.cpp"), *ROOT.glob(f"native/src/{folder}/**/*.h")]
        found = [place for source in sources for place in PARSER["native_raises"](source)]
        assert found, f"no refusal in native/src/{folder}"
        places += found
    for name in PYTHON:
        sources = list(ROOT.glob(f"py/kael/{name}.py"))
        assert sources, f"no py/kael/{name}.py"
        places += [place for source in sources for place in PARSER["python_raises"](source)]
    unused = set(EXCUSED)
    silent = []
    for place in places:
        if says_what_is_accepted(place.text):
            continue
        fitting = {key for key in EXCUSED if key[0] == place.file and key[1] in place.text}
        unused -= fitting
        if not fitting:
            silent.append(f"{place.file}:{place.line}: {place.text}")
    assert silent == []
    assert unused == set(), "excused, but gone or mended"
