"""WORKSPACE.md describes the tree as it is, and the tree obeys it."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAP = (ROOT / "WORKSPACE.md").read_text(encoding="utf-8")


def table(heading: str) -> dict[str, list[str]]:
    """The first table under a heading: first column, without quotes, to the other columns."""
    section = MAP.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [
        [cell.strip() for cell in line.strip().strip("|").split("|")]
        for line in section.splitlines()
        if line.startswith("|")
    ]
    return {row[0].strip("`"): row[1:] for row in rows[2:]}


def quoted(cell: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", cell))


LAYERS = table("The library")
PUBLIC_HEADERS = {header: layer for layer, row in LAYERS.items() for header in quoted(row[2])}


def folders(parent: str) -> set[str]:
    """The folders in which git tracks a file."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--", parent or "."], cwd=ROOT, capture_output=True, text=True, check=False
    )
    if listed.returncode != 0:
        pytest.skip(f"not a git checkout: {listed.stderr.strip()}")
    below = [path.removeprefix(parent).lstrip("/") for path in listed.stdout.split("\0")]
    return {path.split("/")[0] for path in below if "/" in path}


def includes(source: Path) -> list[str]:
    return re.findall(r'^\s*#\s*include\s+[<"]([^>"]+)[>"]', source.read_text(encoding="utf-8"), re.MULTILINE)


def imports(source: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return names


def test_every_top_level_folder_stands_in_the_map():
    assert folders("") == set(table("The folders"))


def test_every_folder_of_the_library_stands_in_the_map():
    assert folders("native/src") == set(LAYERS)


def test_every_public_header_belongs_to_one_folder():
    assert {path.name for path in (ROOT / "native/include/kael").glob("*.h")} == set(PUBLIC_HEADERS)


@pytest.mark.parametrize("layer", LAYERS)
def test_includes_go_down(layer: str):
    allowed = {layer} | quoted(LAYERS[layer][1])
    sources = [path for path in (ROOT / "native/src" / layer).rglob("*") if path.suffix in {".h", ".cpp"}]
    sources += [
        ROOT / "native/include/kael" / name for name, owner in PUBLIC_HEADERS.items() if owner == layer
    ]
    assert sources
    for source in sources:
        for name in includes(source):
            folder, _, rest = name.partition("/")
            target = PUBLIC_HEADERS[rest] if folder == "kael" else folder if folder in LAYERS else None
            assert target is None or target in allowed, f"{source.relative_to(ROOT)} includes {name}"


def test_the_map_has_no_way_up():
    order = list(LAYERS)
    for layer, row in LAYERS.items():
        assert quoted(row[1]) <= set(order[: order.index(layer)])


def test_one_file_includes_nlohmann_json():
    users = [
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "native").rglob("*")
        if path.suffix in {".h", ".cpp"} and any(name.startswith("nlohmann/") for name in includes(path))
    ]
    assert users == ["native/src/io/json.cpp"]


# Packages of extras, which a module imports where it uses them.
OPTIONAL = {
    "_cli/_train.py": {"tqdm"},
    "_download.py": {"huggingface_hub"},
    "_drawing.py": {"graphviz"},
    "_memory.py": {"matplotlib"},
    "training/_metrics.py": {"matplotlib"},
    "training/_tokenizer.py": {"tokenizers"},
}


def test_the_package_needs_numpy_alone():
    package = ROOT / "py" / "kael"
    for source in package.rglob("*.py"):
        packages = {name.split(".")[0] for name in imports(source)}
        foreign = packages - set(sys.stdlib_module_names) - {"kael", "numpy"}
        module = source.relative_to(package).as_posix()
        assert foreign <= OPTIONAL.get(module, set()), module


def test_the_server_knows_the_package_by_its_public_names():
    allowed = {"kael", "tornado", "jsonschema", "prometheus_client"}
    for source in (ROOT / "server").rglob("*.py"):
        for name in imports(source):
            parts = name.split(".")
            where = f"{source.relative_to(ROOT)} imports {name}"
            assert parts[0] in allowed or parts[0] in sys.stdlib_module_names, where
            assert parts[0] != "kael" or not any(part.startswith("_") for part in parts), where


def test_every_direct_dependency_stands_in_the_table():
    text = MAP.split("\n## Dependencies\n", 1)[1]
    for file in ("server/requirements.in", "packaging/requirements/test.in"):
        for line in (ROOT / file).read_text(encoding="utf-8").splitlines():
            name = re.match(r"[A-Za-z][\w-]*", line)
            assert name is None or name[0] in text, f"{file}: {name[0]}"


def pins(file: str) -> set[str]:
    return set(re.findall(r"^[\w.-]+==[^\s;]+", (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE))


def test_the_tests_run_with_the_versions_that_the_server_pins():
    served = pins("server/requirements.txt")
    assert served
    assert served <= pins("packaging/requirements/test.txt")


@pytest.mark.parametrize(
    "page",
    [
        "README.md",
        "WORKSPACE.md",
        "THIRD_PARTY.md",
        *sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md")),
    ],
)
def test_links_between_pages_lead_somewhere(page: str):
    source = ROOT / page
    for target in re.findall(
        r"\]\(([^)#]+)[^)]*\)|<img[^>]+src=\"([^\"]+)\"", source.read_text(encoding="utf-8")
    ):
        path = target[0] or target[1]
        if not re.match(r"[a-z]+:", path):
            assert (source.parent / path).exists(), f"{page} links to {path}"
