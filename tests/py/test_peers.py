"""scripts/compare-peers in small: kael alone, what is missing or fails, and the figures that come out."""

from __future__ import annotations

import importlib.util
import json
import re
import subprocess
import sys

import pytest
from peers import __main__ as command
from peers import catalogue, machine, report
from peers.catalogue import ENGINES, KAEL, Entry
from peers.gpt2_checkpoint import Checkpoint
from peers.measurement import CHECKED, Decode, Figures, Group, Plan, Prompt, Turn

import kael

SMALL = ["--threads", "1", "--depths", "8", "--prompts", "16", "--rounds", "2", "--starts", "1"]


@pytest.fixture
def compare(checkpoint, tmp_path, capsys):
    """Runs the command on a small checkpoint; gives its exit code, what it printed, and its JSON."""

    def run(*arguments):
        written = tmp_path / "figures.json"
        paths = ["--data", str(checkpoint), "--files", str(tmp_path / "files"), "--json", str(written)]
        code = command.main([*paths, *SMALL, *map(str, arguments)])
        printed = capsys.readouterr()
        assert printed.err == ""
        return code, printed.out, json.loads(written.read_text())

    return run


def test_kael_alone_is_measured_at_each_dtype_and_number_of_threads(compare, checkpoint):
    code, printed, figures = compare("--engines", "kael", "--dtypes", "float32,int8", "--threads", "1,2")
    assert code == 0
    groups = [(group["dtype"], group["threads"]) for group in figures["groups"]]
    assert groups == [("float32", 1), ("float32", 2), ("int8", 1), ("int8", 2)]
    for group in figures["groups"]:
        engine = group["engines"][KAEL]
        assert engine["start_seconds"] > engine["load_seconds"] > 0
        assert engine["peak_resident_bytes"] > 2**20
        assert engine["sleeps_between_turns"]
        assert list(engine["workloads"]) == ["decode at 8", "prompt of 16"]
        for workload in engine["workloads"].values():
            assert len(workload["turns"]) == 2
            assert all(turn["tokens_per_second"] > 0 for turn in workload["turns"])
            assert all(turn["read_bytes_per_second"] > 1e8 for turn in workload["turns"])
        assert group["kael_to_best_peer"] == {}
    assert printed.count(f"| kael {kael.__version__} |") == len(groups)
    model = kael.GPT.from_pretrained(checkpoint)
    draws = Plan((), model.config.vocab_size, 1, 1, 0)
    first_ids = model.generate(draws.ids(CHECKED[0], "check"), CHECKED[1], temperature=0)
    assert figures["groups"][0]["engines"][KAEL]["first_ids"] == first_ids
    assert f"begin with the same tokens: {' '.join(map(str, first_ids))}\n" in printed


@pytest.mark.parametrize("peer", [engine for engine in ENGINES if engine != KAEL])
def test_a_peer_that_is_installed_begins_as_kael_does(compare, peer):
    missing = [name for name in ENGINES[peer].packages if importlib.util.find_spec(name) is None]
    if missing:
        pytest.skip(f"{', '.join(missing)} is not installed")
    code, printed, figures = compare("--engines", f"kael,{peer}", "--dtypes", "float32")
    assert code == 0, printed
    (group,) = figures["groups"]
    assert group["failures"] == {}
    assert {one["peer"] for one in group["kael_to_best_peer"].values()} == {peer}


def test_a_peer_that_is_not_installed_is_named_with_what_installs_it(compare, monkeypatch):
    packages = {"json": "json", "no_such_module": "no-such-package"}
    monkeypatch.setitem(ENGINES, "absent", Entry("Absent", "absent", packages, ("float32",)))
    code, printed, figures = compare("--engines", "kael,absent", "--dtypes", "float32")
    assert code == 0
    assert "Absent is left out, without no-such-package. This installs what it needs:\n" in printed
    assert f"  {sys.executable} -m pip install json no-such-package\n" in printed
    assert list(figures["versions"]) == [KAEL]


def test_an_engine_that_fails_is_named_and_the_others_are_measured(compare, monkeypatch):
    monkeypatch.setitem(ENGINES, "broken", Entry("Broken", "broken", {"json": "json"}, ("float32",)))
    code, printed, figures = compare("--engines", "broken,kael", "--dtypes", "float32")
    assert code == 1
    assert "is left out: its process ended with 1: ModuleNotFoundError: No module named" in printed
    assert list(figures["groups"][0]["failures"]) == ["broken"]
    assert list(figures["groups"][0]["engines"]) == [KAEL]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--engines", "kael,llama"], f"expected names out of {', '.join(ENGINES)}, not 'llama'"),
        (["--dtypes", "float16"], "expected names out of float32, bfloat16, int8, int4, not 'float16'"),
        (["--threads", "0"], "expected 1 to 256, not 0"),
        (["--rounds", "x"], "expected a whole number, not 'x'"),
    ],
)
def test_a_wrong_argument_is_refused(arguments, message, capsys):
    with pytest.raises(SystemExit, match="2"):
        command.main(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--depths", "8,48"], "decode at 48 takes 65 positions, and the model has 64"),
        (["--prompts", "64"], "prompt of 64 takes 65 positions, and the model has 64"),
        (["--engines", "pytorch", "--python", "/nowhere"], "/nowhere cannot be started: No such file"),
        (["--data", "/nowhere"], "/nowhere/config.json"),
        (["--json", "/nowhere/figures.json"], "/nowhere/figures.json"),
    ],
)
def test_what_cannot_be_measured_is_said_in_one_line(checkpoint, arguments, message, capsys):
    assert command.main(["--data", str(checkpoint), *SMALL, *arguments]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert message in printed.err
    assert printed.err.count("\n") == 1


def test_the_help_of_the_script_has_every_option_and_its_choices(root):
    said = (root / "scripts" / "compare-peers").read_text(encoding="utf-8").partition("\n. ")[0]
    options = {name for action in command._parser()._actions for name in action.option_strings}
    assert set(re.findall(r"^#   (--[a-z]+)", said, re.MULTILINE)) == options - {"-h", "--help"}
    assert f"some of {','.join(ENGINES)} (all)" in said
    assert f"some of {','.join(catalogue.DTYPES)} (all)" in said
    packages = [
        package for name, entry in ENGINES.items() if name != KAEL for package in entry.packages.values()
    ]
    assert f"-m pip install {' '.join(packages)}\n" in said


def test_engines_that_begin_with_different_tokens_are_told_apart(capsys):
    groups = [
        {"dtype": "float32", "engines": {KAEL: {"first_ids": [1, 2]}, "openvino": {"first_ids": [1, 3]}}},
        {"dtype": "float32", "engines": {KAEL: {"first_ids": [1, 2]}, "pytorch": {"first_ids": [1, 2]}}},
        {"dtype": "int8", "engines": {KAEL: {"first_ids": [7, 7]}}},
    ]
    assert not command._first_ids_agree(groups)
    printed = capsys.readouterr().out
    assert printed == (
        "At float32 the engines begin with different tokens:\n  1 2: PyTorch, kael\n  1 3: OpenVINO\n"
    )
    assert command._first_ids_agree(groups[1:])
    assert capsys.readouterr().out == "At float32 all engines begin with the same tokens: 1 2\n"
    assert command._first_ids_agree(groups[2:])
    assert capsys.readouterr().out == ""


def figures_of(rates, start, load, megabytes):
    turns = [Turn(rate, 40e9, 0.25) for rate in rates]
    return Figures([start], [load], [1], {"decode at 32": turns}, int(megabytes * 1e6))


@pytest.fixture
def group():
    """kael and two peers; in the second round the machine was half as fast."""
    group = Group(Plan((), 1, 3, 1, 0), 2, {})
    group.figures = {
        KAEL: figures_of([120, 60, 130], 0.2, 0.1, 500),
        "pytorch": figures_of([40, 60, 45], 3.0, 1.5, 1000),
        "openvino": figures_of([100, 50, 100], 0.1, 0.05, 250),
    }
    group.failures = {"llama.cpp": "its process ended with 1: why"}
    return group


TITLES = {KAEL: "kael 1", "pytorch": "PyTorch 2", "openvino": "OpenVINO 3", "llama.cpp": "llama.cpp 4"}


def test_ratios_are_to_the_best_peer_and_of_turns_beside_each_other(group):
    ratios = report.summary("int8", 2, group)["kael_to_best_peer"]
    assert ratios == {
        "decode at 32": {"ratio": 1.2, "peer": "openvino"},
        "start_seconds": {"ratio": 2.0, "peer": "openvino"},
        "load_seconds": {"ratio": 2.0, "peer": "openvino"},
        "peak_resident_bytes": {"ratio": 2.0, "peer": "openvino"},
    }


def test_the_table_has_a_row_for_each_engine_and_the_ratios(group):
    group.figures["pytorch"].sleeps = False
    summary = report.summary("int8", 2, group)
    assert report.table(summary, TITLES).splitlines() == [
        "int8, 2 threads",
        "",
        "| tokens/s | decode at 32 | start, s | load, s | memory, MB |",
        "|---|---|---|---|---|",
        "| kael 1 | 120 | 0.20 | 0.10 | 500 |",
        "| PyTorch 2 | 45 | 3.00 | 1.50 | 1000 |",
        "| OpenVINO 3 | 100 | 0.10 | 0.05 | 250 |",
        "| kael / best peer | 1.20 (OpenVINO) | 2.00 (OpenVINO) | 2.00 (OpenVINO) | 2.00 (OpenVINO) |",
        "| memory read meanwhile, GB/s | 40 (40 to 40) |  |  |  |",
        "| processors used by others | 0.25 (0.25 to 0.25) |  |  |  |",
    ]
    assert report.notes(summary, TITLES) == [
        "llama.cpp 4 is left out: its process ended with 1: why",
        "PyTorch 2 goes on working between its turns, at the cost of the others",
    ]


def test_a_group_without_kael_has_no_ratios(group):
    del group.figures[KAEL]
    summary = report.summary("int4", 1, group)
    assert summary["kael_to_best_peer"] == {}
    table = report.table(summary, TITLES)
    assert "kael" not in table
    assert "| PyTorch 2 | 45 |" in table


def test_a_group_in_which_every_engine_failed_is_no_table(group):
    group.figures = {}
    assert report.table(report.summary("int4", 1, group), TITLES) == "int4, 1 thread: nothing was measured"


@pytest.mark.parametrize(("workload", "shape"), [(Decode(512), (496, 33)), (Prompt(512), (512, 1))])
def test_the_depth_is_in_the_middle_of_what_is_decoded(workload, shape):
    assert workload.shape == shape


def test_no_prompt_begins_as_one_of_another_round():
    plan = Plan((), 50257, 5, 1, 0)
    beginnings = {tuple(plan.prompt(one, n)[:8]) for one in (Decode(512), Prompt(512)) for n in range(5)}
    assert len(beginnings) == 10


def test_the_checkpoint_is_read_as_kael_reads_it(checkpoint):
    read, tensors = Checkpoint(checkpoint), kael.load_safetensors(checkpoint / "model.safetensors")
    for name, tensor in tensors.items():
        assert (read[name] == tensor.numpy()).all(), name
    assert (read.layers, read.heads, read.width, read.head_width) == (2, 2, 32, 16)


def test_a_checkpoint_of_another_kind_is_refused(tmp_path):
    (tmp_path / "config.json").write_text('{"n_layer": 2, "hidden_size": 8}')
    with pytest.raises(ValueError, match=r"config\.json: n_embd, n_head, n_positions, vocab_size is missing"):
        Checkpoint(tmp_path)


def test_a_process_that_spins_is_told_from_one_that_waits():
    for code, sleeps in (("import sys; sys.stdin.read()", True), ("while True: pass", False)):
        with subprocess.Popen(
            [sys.executable, "-c", f"print(flush=True); {code}" if sleeps else f"print(flush=True)\n{code}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            try:
                process.stdout.readline()
                assert machine.falls_asleep(process.pid, 5 if sleeps else 0.2) == sleeps
            finally:
                process.kill()


def test_every_engine_has_a_module_and_a_known_dtype():
    for engine, entry in catalogue.ENGINES.items():
        assert importlib.util.find_spec(f"peers.engines.{entry.module}") is not None, engine
        assert set(entry.dtypes) <= {"float32", "bfloat16", "int8", "int4"}, engine
