"""python -m kael: what it prints, where, and with which code it ends."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
import sanitizer

import kael
from kael import _cli


def environment(**changes):
    paths = os.pathsep.join(filter(None, [*sys.path]))
    return {**os.environ, "PYTHONPATH": paths, "PYTHONIOENCODING": "utf-8", **changes}


def start(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-m", "kael", *map(str, arguments)], env=environment(), **options
    )


def run(*arguments, code=0, stdin=b"", **changes):
    """Runs a command; standard output as bytes. A failure must be one line, a success silent on standard
    error.
    """
    done = subprocess.run(
        [sys.executable, "-m", "kael", *map(os.fsencode, map(str, arguments))],
        input=stdin,
        capture_output=True,
        timeout=120,
        env=environment(**changes),
    )
    assert done.returncode == code, done.stderr
    if code:
        assert done.stdout == b""
        assert done.stderr.count(b"\n") == 1
        assert b"Traceback" not in done.stderr
        return done.stderr.decode()
    assert done.stderr == b""
    return done.stdout


# ---- Arguments


@pytest.mark.parametrize(
    "command",
    [
        (),
        ("generate",),
        ("bench",),
        ("tokenize",),
        ("inspect",),
        ("train",),
        ("tokenizer",),
        ("tokenizer", "train"),
        ("download",),
    ],
)
def test_help_suffices(command):
    text = run(*command, "--help", COLUMNS="100").decode()
    assert text.startswith("usage: python -m kael")
    parser = _cli._parser()
    for name in command:
        (commands,) = (action for action in parser._actions if isinstance(action.choices, dict))
        parser = commands.choices[name]
    options = [action for action in parser._actions if not isinstance(action.choices, dict)]
    assert [action.dest for action in options if not action.help] == []


def test_the_version_is_printed():
    assert run("--version").decode() == f"kael {kael.__version__}\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "COMMAND"),
        (["sing"], "'sing'"),
        (["generate", "--max-tokens", "-1"], "--max-tokens: expected 0 to 16777216, not -1"),
        (["generate", "--max-tokens", "1e3"], "--max-tokens: expected a whole number, not '1e3'"),
        (["generate", "--temperature", "nan"], "--temperature: expected 0 or at least 0.001, not nan"),
        (["generate", "--temperature", "1e-40"], "--temperature: expected 0 or at least 0.001, not 1e-40"),
        (["generate", "--temperature", "warm"], "--temperature: expected a number, not 'warm'"),
        (["generate", "--seed", "18446744073709551616"], "--seed: expected 0 to 18446744073709551615"),
        (["generate", "--top-p", "1.5"], "--top-p: expected 0 to 1, not 1.5"),
        (["generate", "--min-p", "nan"], "--min-p: expected 0 to 1, not nan"),
        (["generate", "--repetition-penalty", "0"], "--repetition-penalty: expected 0.01 to 100, not 0"),
        (["generate", "--stop", ""], "--stop: expected a text, not ''"),
        (["generate", "--threads", "0"], "--threads: expected 1 to 256, not 0"),
        (["generate", "--temp", "1"], "--temp"),
        (["generate", "a", "--prompt", "b"], "--prompt: not allowed with argument TEXT"),
        (
            ["generate", "a", "b"],
            "generate: unrecognized arguments: b (--help shows what there is; what holds spaces",
        ),
        (["generate", "--data", ""], "--data: expected a path, not ''"),
        (["inspect", ""], "PATH: expected a path, not ''"),
        (
            ["bench", "--dtype", "int8,int3"],
            "--dtype: expected some of float32, bfloat16, int8, int4, not 'int3'",
        ),
        (["bench", "--depths", "32,x"], "--depths: expected a whole number, not 'x'"),
        (["tokenize", "a", "b"], "b"),
        (["inspect"], "PATH"),
    ],
)
def test_wrong_arguments_are_one_line_and_code_2(arguments, message):
    assert message in run(*arguments, code=2)


def test_without_numpy_it_says_what_to_install(tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'numpy' else find(name, *rest)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "kael", "generate", "x"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert done.stderr == (
        f"python -m kael: kael needs the package numpy: {sys.executable} -m pip install numpy\n"
    )


# ---- generate


def test_generate_prints_what_the_model_continues(checkpoint):
    tokenizer = kael.BpeTokenizer(checkpoint / "vocab.json", checkpoint / "merges.txt")
    ids = kael.GPT.from_pretrained(checkpoint).generate(tokenizer.encode("hello"), 12, temperature=0)
    expected = tokenizer.decode(ids).decode("utf-8", "replace").encode() + b"\n"
    arguments = ("generate", "--data", checkpoint, "--max-tokens", 12, "--temperature", 0)
    assert run(*arguments, "hello") == expected
    assert run("generate", "hello", *arguments[1:]) == expected
    assert run(*arguments, "--prompt", "hello") == expected
    assert run(*arguments, stdin=b"hello") == expected
    assert run(*arguments, "-", stdin=b"hello") == expected
    assert run(*arguments, "--prompt", "-", stdin=b"hello") == expected
    assert run(*arguments, "--prompt", "hello", "--threads", 1) == expected


def test_generate_samples_as_it_is_told(checkpoint):
    model = kael.GPT.from_pretrained(checkpoint)
    tokenizer = kael.BpeTokenizer.from_pretrained(checkpoint)
    options = {
        "top_p": 0.9,
        "min_p": 0.01,
        "repetition_penalty": 1.2,
        "presence_penalty": 0.4,
        "frequency_penalty": 0.3,
    }
    ids = model.generate(tokenizer.encode("hello"), 12, 0.8, 40, seed=3, **options)
    flags = [part for name, value in options.items() for part in (f"--{name.replace('_', '-')}", value)]
    text = run("generate", "hello", "--data", checkpoint, "--max-tokens", 12, "--seed", 3, *flags)
    assert text == tokenizer.decode(ids).decode("utf-8", "replace").encode() + b"\n"


def test_a_stop_string_ends_the_text_and_is_not_printed(checkpoint):
    arguments = ("generate", "--data", checkpoint, "a", "--max-tokens", 60, "--top-k", 0, "--seed", 5)
    text = run(*arguments).decode().rstrip("\n")
    stop = text[20:23]
    assert (
        run(*arguments, f"--stop={stop}", "--stop", "\N{SNOWMAN}" * 2).decode()
        == text[: text.find(stop)] + "\n"
    )


def test_an_id_that_the_vocabulary_lacks_is_no_text_and_no_failure(checkpoint, tmp_path):
    """As of models whose embedding is padded."""
    folder = shutil.copytree(checkpoint, tmp_path / "padded")
    vocabulary = json.loads((folder / "vocab.json").read_text())
    few = {token: number for token, number in vocabulary.items() if number < 128}
    (folder / "vocab.json").write_text(json.dumps(few))
    text = run("generate", "--data", folder, "a", "--max-tokens", 40, "--top-k", 0, "--seed", 1).decode()
    assert "\N{REPLACEMENT CHARACTER}" in text
    assert len(text) == 40 + 1


def test_a_seed_repeats_a_text(checkpoint):
    arguments = ("generate", "--data", checkpoint, "--prompt", "a", "--max-tokens", 30)
    assert run(*arguments, "--seed", 4) == run(*arguments, "--seed", 4)
    assert run(*arguments) != run(*arguments)


def test_a_prompt_that_begins_with_a_dash_is_not_an_option(checkpoint):
    arguments = ("generate", "--data", checkpoint, "--max-tokens", 3, "--temperature", 0)
    assert run(*arguments, "--prompt=--seed") == run(*arguments, "-", stdin=b"--seed")
    assert run(*arguments, "--", "--seed") == run(*arguments, "-", stdin=b"--seed")
    assert run(*arguments, "--prompt", "--seed") == run(*arguments, "-", stdin=b"--seed")
    assert run(*arguments, "--prompt", "-hello") == run(*arguments, "-", stdin=b"-hello")
    assert run(*arguments, "--", "--prompt") == run(*arguments, "-", stdin=b"--prompt")
    assert "--prompt: expected one argument" in run(*arguments, "--prompt", code=2)


def test_the_prompt_may_hold_any_byte(checkpoint):
    arguments = ("generate", "--data", checkpoint, "--max-tokens", 3, "--temperature", 0, "--prompt")
    assert run(*arguments, os.fsdecode(b"\xff\xfe")) == run(*arguments, "-", stdin=b"\xff\xfe")


def test_stats_go_to_standard_error(checkpoint):
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "kael",
            "generate",
            "--data",
            checkpoint,
            "--prompt",
            "a",
            "--max-tokens",
            "5",
            "--stats",
        ],
        capture_output=True,
        env=environment(),
    )
    assert done.returncode == 0
    assert done.stderr.startswith(b"5 tokens (length); first after ")
    assert b"; seed " in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--data", "/nowhere", "--prompt", "a"], "/nowhere"),
        (["--prompt", ""], "the prompt is empty, expected some text to continue"),
        (
            ["--prompt", "a", "--device", "cuda"],
            "device 'cuda' is not available in this build, expected 'cpu'",
        ),
    ],
)
def test_failures_are_one_line_and_code_1(checkpoint, arguments, message):
    line = run("generate", "--data", checkpoint, *arguments, code=1)
    assert line.startswith("python -m kael generate: ")
    assert any(part in line for part in message.split("|"))


@pytest.mark.parametrize("command", ["generate a --data", "tokenize a --data", "bench --data"])
def test_what_is_no_folder_is_said_to_be_none(checkpoint, tmp_path, command):
    for path in (tmp_path / "absent", checkpoint / "model.safetensors"):
        line = run(*command.split(), path, code=1)
        assert line.endswith(
            f"{path} is no folder, expected the path of one with a model: python -m kael download gets one\n"
        )


def test_the_first_file_that_a_folder_lacks_is_named(checkpoint, tmp_path):
    for command in ("generate a --data", "bench --data", "inspect"):
        line = run(*command.split(), tmp_path, code=1)
        assert f"{tmp_path} holds neither model.safetensors nor " in line
    line = run("tokenize", "a", "--data", tmp_path, code=1)
    assert line.endswith(f"{tmp_path} has no vocab.json and no merges.txt, expected a model's tokenizer\n")
    for name in ("model.safetensors", "config.json", "merges.txt"):
        shutil.copy(checkpoint / name, tmp_path)
    line = run("generate", "a", "--data", tmp_path, code=1)
    assert line.endswith(f"{tmp_path} has no vocab.json, expected a model's tokenizer\n")


def test_a_missing_library_is_one_line(checkpoint):
    line = run("generate", "--data", checkpoint, "--prompt", "a", code=1, KAEL_LIBRARY="/nowhere/libkael.so")
    assert "the library was not found" in line


def test_stop_at_eos_needs_the_token(checkpoint, tmp_path):
    shutil.copytree(checkpoint, tmp_path, dirs_exist_ok=True)
    vocabulary = json.loads((tmp_path / "vocab.json").read_text())
    vocabulary["<|end|>"] = vocabulary.pop("<|endoftext|>")
    (tmp_path / "vocab.json").write_text(json.dumps(vocabulary))
    arguments = ("generate", "--prompt", "a", "--max-tokens", 2, "--stop-at-eos", "--data")
    assert "<|endoftext|>" in run(*arguments, tmp_path, code=1)
    run(*arguments, checkpoint)


def test_text_appears_while_it_is_generated(checkpoint):
    process = start(
        "generate", "--data", checkpoint, "--prompt", "a", "--max-tokens", 2**24, stdout=subprocess.PIPE
    )
    try:
        assert process.stdout.read(1)
        assert process.poll() is None
    finally:
        process.kill()
        process.communicate()


def test_a_reader_that_leaves_ends_the_command_quietly(checkpoint):
    process = start(
        *("generate", "--data", checkpoint, "--prompt", "a", "--max-tokens", 2**24),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.read(10)
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == 0
    process.stderr.close()


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_a_generation_with_what_there_is(checkpoint, number):
    process = start(
        *("generate", "--data", checkpoint, "--prompt", "a", "--max-tokens", 2**24),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    process.stdout.read(10)
    process.send_signal(number)
    rest, errors = process.communicate(timeout=60)
    assert errors == b""
    assert rest.endswith(b"\n")
    assert process.returncode == 0


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="this system has no /dev/full, a disk that is always full"
)
def test_a_full_disk_is_one_line(checkpoint):
    with open("/dev/full", "wb") as full:
        process = start(
            "generate", "--data", checkpoint, "--prompt", "a", stdout=full, stderr=subprocess.PIPE
        )
        errors = process.communicate(timeout=60)[1]
    assert process.returncode == 1
    assert errors.count(b"\n") == 1
    assert b"No space left on device" in errors


@pytest.mark.skipif(
    not os.path.exists("/dev/full"), reason="this system has no /dev/full, a disk that is always full"
)
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("arguments", [("--help",), ("--version",), ("generate", "--help")])
def test_help_on_a_full_disk_is_one_line(arguments, unbuffered, monkeypatch):
    monkeypatch.setenv("PYTHONUNBUFFERED", unbuffered)
    with open("/dev/full", "wb") as full:
        process = start(*arguments, stdout=full, stderr=subprocess.PIPE)
        errors = process.communicate(timeout=60)[1]
    assert (process.returncode, errors) == (1, b"python -m kael: No space left on device\n")
    assert shell(arguments, ">&-").stderr == "python -m kael: standard output is closed\n"


# ---- Streams that are closed, signals that come early


@pytest.mark.skipif(sys.platform == "win32", reason="closes descriptors as a shell does")
@pytest.mark.parametrize(
    "command",
    [
        "generate --prompt a --max-tokens 3",
        "tokenize a",
        "inspect MODEL",
        "bench --repeats 1 --depths 32 --prompts 8",
    ],
)
@pytest.mark.parametrize(
    ("closed", "told"), [(">&-", True), ("2>&-", False), ("<&- >&-", True), (">&- 2>&-", False)]
)
def test_a_closed_output_never_gives_a_traceback(checkpoint, command, closed, told):
    name, _, rest = command.partition(" ")
    words = [name, *(["--data", str(checkpoint)] if name != "inspect" else []), *rest.split()]
    words = [str(checkpoint) if word == "MODEL" else word for word in words]
    done = shell(words, closed)
    assert done.returncode == (1 if ">&-" in closed.split() else 0)
    assert done.stderr == (f"python -m kael {name}: standard output is closed\n" if told else "")


@pytest.mark.skipif(sys.platform == "win32", reason="closes descriptors as a shell does")
@pytest.mark.parametrize("command", ["generate", "tokenize"])
def test_a_closed_input_is_one_line(checkpoint, command):
    for more in ([], ["--prompt", "-"] if command == "generate" else ["-"]):
        done = shell([command, "--data", str(checkpoint), *more], "<&-")
        assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
        assert "standard input is closed" in done.stderr


def shell(words, redirections):
    line = f"exec {shlex.join([sys.executable, '-m', 'kael', *words])} {redirections}"
    return subprocess.run(
        ["sh", "-c", line], capture_output=True, text=True, timeout=120, env=environment(), input=""
    )


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "signalled",
    [
        "{kill}",
        "try:\n    {kill}\nexcept BaseException:\n    raise ImportError('a part of NumPy')",
        "class Part:\n    def __del__(self):\n        {kill}\n        for _ in range(9): pass\nPart()",
    ],
    ids=["plainly", "where all is caught", "in a finalizer"],
)
def test_a_signal_during_the_imports_is_one_line(tmp_path, number, signalled):
    # A NumPy that is being imported when the signal comes.
    (tmp_path / "numpy.py").write_text(
        f"import os\n{signalled.format(kill=f'os.kill(os.getpid(), {int(number)})')}\n"
        "raise SystemExit('the signal did nothing')\n"
    )
    paths = os.pathsep.join([str(tmp_path), *sys.path])
    done = subprocess.run(
        [sys.executable, "-m", "kael", "generate", "a"],
        capture_output=True,
        timeout=120,
        env=environment(PYTHONPATH=paths),
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"python -m kael: interrupted\n")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_was_blocked_before_the_start_ends_it(number):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [number])
    try:
        process = start("tokenize", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    process.send_signal(number)
    assert process.stdout.read() == b""  # to its end, with standard input still open
    assert process.communicate(timeout=60)[1] == b"python -m kael: interrupted\n"
    assert process.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_command_that_waits_for_its_input(number):
    fcntl = pytest.importorskip("fcntl")
    termios = pytest.importorskip("termios")
    process = start("tokenize", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    os.write(process.stdin.fileno(), b"x")
    while any(fcntl.ioctl(process.stdin, termios.FIONREAD, bytes(4))):  # until it has read that
        assert process.poll() is None
    process.send_signal(number)
    assert process.stdout.read() == b""
    assert process.communicate(timeout=60)[1] == b"python -m kael: interrupted\n"
    assert process.returncode == 0


@pytest.mark.skipif(sys.platform == "win32", reason="such a name is not allowed")
@pytest.mark.parametrize("command", ["generate a --data", "tokenize a --data", "inspect"])
def test_a_path_with_a_line_end_is_one_line(command):
    assert "x\\ny" in run(*command.split(), "x\ny", code=1)
    assert "x\\ny" in run(*command.split(), "z", "x\ny", code=2)


# ---- tokenize


def test_tokenize_shows_ids_and_pieces(checkpoint):
    assert run("tokenize", "--data", checkpoint, "a\0ñ".replace("\0", " ")).decode() == (
        " 97  'a'\n 32  ' '\n195  b'\\xc3'\n177  b'\\xb1'\n"
    )
    assert run("tokenize", "--data", checkpoint, stdin=b"") == b""


def test_tokenize_reads_any_byte_and_writes_json(checkpoint):
    answer = json.loads(run("tokenize", "--data", checkpoint, "--json", stdin=b"a\0\xff"))
    assert answer == {
        "ids": [97, 0, 255],
        "tokens": [
            {"id": 97, "bytes": "61", "text": "a"},
            {"id": 0, "bytes": "00", "text": "\0"},
            {"id": 255, "bytes": "ff", "text": None},
        ],
    }


def test_tokenize_takes_end_of_text_as_text_unless_asked(checkpoint):
    assert run("tokenize", "--data", checkpoint, "<|endoftext|>").count(b"\n") == 13
    assert (
        run("tokenize", "--data", checkpoint, "--allow-special", "<|endoftext|>") == b"256  '<|endoftext|>'\n"
    )


def test_tokenize_without_a_text_does_not_wait_for_a_person(checkpoint, terminal):
    process = start("tokenize", "--data", checkpoint, stdin=terminal[1], stderr=subprocess.PIPE)
    errors = process.communicate(timeout=60)[1]
    os.close(terminal[1])
    assert (process.returncode, errors.count(b"\n")) == (1, 1)
    assert errors.endswith(b"there is no text: give it as an argument or on standard input\n")


# ---- inspect


def test_inspect_shows_a_file(checkpoint):
    text = run("inspect", checkpoint / "model.safetensors").decode()
    lines = text.splitlines()
    total = 4 * kael.GPT.from_pretrained(checkpoint).parameter_count
    assert lines[0] == f"{checkpoint / 'model.safetensors'}: sound, 28 tensors, {total:,} bytes"
    assert lines[1] == "  'format' = 'pt'"
    assert lines[2].split() == ["tensor", "dtype", "shape", "bytes"]
    assert len({len(line) for line in lines[2:]}) == 1
    assert "  h.0.attn.c_attn.weight  float32  [32, 96]   12,288" in lines


def test_inspect_counts_layers_as_numbers(tmp_path):
    names = ["h.10.b", "h.9.b", "h.9.a", "h.08", "h.0", "wte", "h", f"h.{'9' * 5000}", "h.\u00b2"]
    path = tmp_path / "x.safetensors"
    kael.save_safetensors(path, {name: [0.0] for name in names})
    report = json.loads(run("inspect", "--json", path))
    assert [tensor["name"] for tensor in report["tensors"]] == [
        *("h", "h.0", "h.08", "h.9.a", "h.9.b", "h.10.b", f"h.{'9' * 5000}", "h.\u00b2", "wte")
    ]


def test_inspect_shows_a_file_without_tensors(tmp_path):
    path = tmp_path / "x.safetensors"
    kael.save_safetensors(path, {})
    assert run("inspect", path).decode() == f"{path}: sound, 0 tensors, 0 bytes\n"


def test_inspect_shows_a_folder(checkpoint):
    text = run("inspect", checkpoint).decode()
    assert text.startswith(f"{checkpoint}: sound, a GPT-2 of ")
    assert "layers = 2" in text
    assert "inner_dimension = 128" in text
    assert "<|endoftext|> is 256" in text
    report = json.loads(run("inspect", "--json", checkpoint))
    assert (report["config"]["dimension"], report["config"]["inner_dimension"]) == (32, 128)
    assert report["tokenizer"] == {"tokens": 257, "end_of_text": 256}
    assert len(report["files"][0]["tensors"]) == 28


@pytest.mark.parametrize("command", ["inspect", "generate"])
def test_a_tokenizer_of_another_model_is_named(checkpoint, tmp_path, command):
    folder = tmp_path / "model"
    shutil.copytree(checkpoint, folder)
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(kael.default_model_path() / name, folder)
    arguments = ("inspect", folder) if command == "inspect" else ("generate", "--data", folder, "a")
    message = run(*arguments, code=1)
    assert f"{folder}: the tokenizer has 3072 tokens, the model only 257" in message


def test_a_tokenizer_that_is_there_is_not_overwritten(checkpoint, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(checkpoint, folder)
    before = (folder / "vocab.json").read_bytes()
    (tmp_path / "text.txt").write_text("some text")
    message = run("tokenizer", "train", "--text", tmp_path / "text.txt", "--to", folder, code=1)
    assert f"{folder} holds a tokenizer already" in message
    assert (folder / "vocab.json").read_bytes() == before


def test_inspect_shows_shards_and_a_folder_without_tokenizer(checkpoint, tmp_path):
    weights = kael.load_safetensors(checkpoint / "model.safetensors")
    shards = {name: f"model-{1 + (name > 'h.1')}-of-2.safetensors" for name in weights}
    for shard in set(shards.values()):
        kael.save_safetensors(
            tmp_path / shard, {name: weights[name] for name in weights if shards[name] == shard}
        )
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps({"weight_map": shards}))
    shutil.copy(checkpoint / "config.json", tmp_path)
    text = run("inspect", tmp_path).decode()
    assert text.count("-of-2.safetensors: sound, ") == 2
    assert "no tokenizer: vocab.json and merges.txt are absent" in text
    report = json.loads(run("inspect", "--json", tmp_path))
    assert sum(len(file["tensors"]) for file in report["files"]) == 28
    assert report["tokenizer"] is None


def test_inspect_counts_what_is_no_number_and_a_generation_says_so(checkpoint, tmp_path):
    folder = shutil.copytree(checkpoint, tmp_path / "broken")
    weights = {
        name: tensor.clone() for name, tensor in kael.load_safetensors(folder / "model.safetensors").items()
    }
    weights["h.0.ln_1.weight"].numpy()[:3] = np.nan
    weights["ln_f.bias"].numpy()[0] = np.inf
    kael.save_safetensors(folder / "model.safetensors", weights)
    lines = run("inspect", folder).decode().splitlines()
    assert lines[0].startswith(f"{folder}: NaN or infinity in its weights, ")
    assert f"{folder / 'model.safetensors'}: 2 tensors hold NaN or infinity" in "\n".join(lines)
    named = {line.split()[0]: line.split("  ")[-1] for line in lines if line.endswith("NaN or infinite")}
    assert named == {"h.0.ln_1.weight": "3 NaN or infinite", "ln_f.bias": "1 NaN or infinite"}
    report = json.loads(run("inspect", "--json", folder))
    assert sum(tensor["not_finite"] for tensor in report["files"][0]["tensors"]) == 4
    line = run("generate", "--data", folder, "a", code=1)
    assert "at new token 1, the logit of token 0 of 257 is NaN" in line
    assert "python -m kael inspect" in line


def test_inspect_says_why_a_file_is_bad(checkpoint, tmp_path):
    shutil.copytree(checkpoint, tmp_path, dirs_exist_ok=True)
    path = tmp_path / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-4])
    for target in (path, tmp_path):
        line = run("inspect", target, code=1)
        assert line.startswith("python -m kael inspect: ")
        assert "model.safetensors" in line
    assert "/nowhere does not exist" in run("inspect", "/nowhere", code=1)


def test_inspect_takes_every_sound_case_of_other_projects(shared):
    cases = shared / "data" / "safetensors-cases"
    verdicts = json.loads((cases / "expected_safetensors_0.8.0.json").read_text())
    sound = [name for name, verdict in sorted(verdicts.items()) if verdict["accept"]]
    assert len(sound) > 5
    for name in sound:
        assert run("inspect", cases / name)


# ---- bench


def test_bench_prints_its_figures_as_json(checkpoint):
    arguments = ("--depths", "32", "--prompts", "16,5000", "--repeats", 1, "--threads", "1,2", "--json")
    report = json.loads(run("bench", "--data", checkpoint, "--dtype", "int8,float32", *arguments))
    assert report["model"]["parameters"] == kael.GPT.from_pretrained(checkpoint).parameter_count
    runs = [(result["dtype"], result["threads"]) for result in report["results"]]
    assert runs == [("int8", 1), ("int8", 2), ("float32", 1), ("float32", 2)]
    for result in report["results"]:
        (decode,) = result["decode"]
        assert decode["key_value_bytes_per_token"] == 4 * 2 * 2 * 32 * 32
        share = (
            (decode["weight_bytes_per_token"] + 4 * 2 * 2 * 32 * 32)
            * decode["tokens_per_second"]
            / decode["read_bytes_per_second"]
        )
        assert decode["bandwidth_share"] == pytest.approx(share)
        assert [prompt["tokens"] for prompt in result["prompt"]] == [16]  # 5000 does not fit
        assert result["prompt"][0]["tokens_per_second"] > 0
        start = result["start"]
        assert 0 < start["load_seconds"] < start["first_token_seconds"] < 30
        assert start["peak_resident_bytes"] > 5_000_000
    parameters = report["model"]["parameters"]
    (whole,) = {
        r["decode"][0]["weight_bytes_per_token"] for r in report["results"] if r["dtype"] == "float32"
    }
    assert whole == 4 * (parameters - 64 * 32)
    (small,) = {r["decode"][0]["weight_bytes_per_token"] for r in report["results"] if r["dtype"] == "int8"}
    matrices = 257 * 32 + 2 * 12 * 32 * 32
    assert small == matrices + matrices // 32 + 4 * (parameters - 64 * 32 - matrices)


def test_bench_says_how_well_each_dtype_predicts_a_text(checkpoint, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("It was a dark and stormy night. " * 20)
    arguments = ("--depths", "8", "--prompts", "8", "--repeats", 1, "--dtype", "float32,bfloat16", "--json")
    report = json.loads(run("bench", "--data", checkpoint, *arguments, "--text", text))
    exact, near = report["quality"]
    model, tokenizer = kael.GPT.from_pretrained(checkpoint), kael.BpeTokenizer.from_pretrained(checkpoint)
    ids = tokenizer.encode(text.read_text())
    losses = []
    for window in range(min(32, len(ids) // 64)):
        start = window * (len(ids) // min(32, len(ids) // 64))
        rows = model(ids[start : start + 64]).numpy().astype(np.float64)[:-1]
        right = rows[np.arange(63), ids[start + 1 : start + 64]]
        losses += list(np.log(np.exp(rows).sum(axis=1)) - right)
    assert exact["nats_per_token"] == pytest.approx(np.mean(losses), abs=1e-6)
    assert exact["perplexity"] == pytest.approx(np.exp(np.mean(losses)), rel=1e-6)
    assert (exact["perplexity_ratio"], exact["agreement"], exact["tokens"]) == (1, 1, len(losses))
    assert 0.99 < near["perplexity_ratio"] < 1.01
    assert 0.9 < near["agreement"] <= 1


def test_bench_says_what_guesses_gain_and_cost(checkpoint, terminal):
    arguments = ("--depths", "8", "--prompts", "8", "--repeats", 1, "--dtype", "float32,int8")
    report = json.loads(run("bench", "--data", checkpoint, *arguments, "--speculate", 4, "--json"))
    assert [(row["dtype"], row["text"], row["guesses"]) for row in report["speculation"]] == [
        ("float32", "in circles", 4),
        ("float32", "drawn at temperature 1", 4),
        ("int8", "in circles", 4),
        ("int8", "drawn at temperature 1", 4),
    ]
    assert all(row["speed_ratio"] > 0 for row in report["speculation"])
    assert report["speculation"][0]["guessed_share"] > 0.4  # 2 of 3 circles of 16 tokens can be known
    assert report["speculation"][1]["guessed_share"] < 0.2
    controller, written = terminal
    process = start("bench", "--data", checkpoint, *arguments, "--speculate", 4, stdout=written)
    os.close(written)
    assert "int8 with 4 guesses: " in shown_on(controller)
    assert process.wait(60) == 0


def shown_on(controller, until=b""):
    """What a terminal shows, to its end or until a word appears."""
    shown = b""
    with contextlib.suppress(OSError):  # Linux: the other side was closed
        while not (until and until in shown) and (part := os.read(controller, 4096)):
            shown += part
    return shown.decode()


@pytest.fixture
def terminal():
    """Both ends of a pseudo-terminal: the one that shows, the one that a command writes to."""
    pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals")
    controller, written = pty.openpty()
    yield controller, written
    os.close(controller)


def test_bench_shows_a_table_on_a_terminal(checkpoint, terminal):
    controller, written = terminal
    arguments = ("--depths", "32,5000", "--prompts", "16", "--repeats", 1, "--threads", 1)
    process = start("bench", "--data", checkpoint, *arguments, stdout=written, stderr=written)
    os.close(written)
    text = shown_on(controller)
    assert process.wait(60) == 0
    lines = text.split("\n")
    assert lines[0].rpartition("\r")[0] == "depth 5000 is left out: the model has 64 positions"
    assert lines[1].split("\r")[1:-2] == [
        "float32, 1 thread, decode at 32: sample 1 of 1",
        "float32, 1 thread, prompt of 16: sample 1 of 1",
        "float32, 1 thread, start: sample 1 of 1       ",
        " " * len("float32, 1 thread, start: sample 1 of 1"),
    ]
    for word in (
        " decode at   32 ",
        " prompt of   16 ",
        " load ",
        " first token ",
        " peak memory ",
        "GB/s read",
    ):
        assert word in text, text


def test_bench_shows_how_much_faster_it_is_than_an_earlier_report(checkpoint, tmp_path, terminal):
    arguments = ("--depths", "32", "--prompts", "16", "--repeats", 1, "--threads", 1)
    report = json.loads(run("bench", "--data", checkpoint, *arguments, "--json"))
    report["results"][0]["decode"][0]["tokens_per_second"] = 1e-3
    report["results"][0]["prompt"][0]["tokens"] = 17  # another prompt is not compared
    earlier = tmp_path / "earlier.json"
    earlier.write_text(json.dumps(report))
    controller, written = terminal
    process = start(
        "bench", "--data", checkpoint, *arguments, "--compare", earlier, stdout=written, stderr=written
    )
    os.close(written)
    lines = shown_on(controller).splitlines()
    assert process.wait(60) == 0
    (decode,) = (line for line in lines if line.startswith("  decode at"))
    speed = float(decode.split()[3])
    assert float(decode.split()[-2]) == pytest.approx(speed / 1e-3, rel=0.01)
    assert decode.endswith(" x")
    assert not next(line for line in lines if line.startswith("  prompt of")).endswith(" x")


@pytest.mark.parametrize("content", [b"", b"\xff\xfe", b"a"])
def test_bench_refuses_a_text_that_it_cannot_predict_before_it_measures(checkpoint, tmp_path, content):
    text = tmp_path / "text.txt"
    text.write_bytes(content)
    line = run("bench", "--data", checkpoint, "--repeats", 1000, "--text", text, code=1)
    assert line.startswith(f"python -m kael bench: --text: {text} ")
    assert "expected" in line
    missing = tmp_path / "missing.txt"
    assert f"{missing} is no file" in run("bench", "--data", checkpoint, "--text", missing, code=1)


def test_bench_says_that_one_position_predicts_no_text(checkpoint, tmp_path):
    kael.GPT(vocab_size=257, max_positions=1, layers=1, heads=1, dimension=8).save_pretrained(tmp_path)
    for name in ("vocab.json", "merges.txt"):
        shutil.copy(checkpoint / name, tmp_path)
    text = tmp_path / "text.txt"
    text.write_text("Once upon a time")
    arguments = ("--repeats", 1, "--depths", 8, "--prompts", 1, "--text", text)
    assert "the model has 1 position" in run("bench", "--data", tmp_path, *arguments, code=1)


@pytest.mark.parametrize(
    "text",
    [
        "{}",
        "[1]",
        "no JSON",
        '{"results": [{"dtype": "int8"}]}',
        '{"results": [{"dtype": "int8", "threads": 1, "decode": [], '
        '"prompt": [{"tokens": 8, "tokens_per_second": "fast"}]}]}',
        "[" * 100_000,
    ],
)
def test_bench_refuses_to_compare_with_what_is_no_report(checkpoint, tmp_path, text):
    other = tmp_path / "other.json"
    other.write_text(text)
    line = run("bench", "--data", checkpoint, "--compare", other, code=1)
    assert (
        line
        == f"python -m kael bench: {other} is no report of this program, expected what bench --json prints\n"
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_bench_has_no_result(checkpoint, terminal, number):
    controller, written = terminal
    process = start("bench", "--data", checkpoint, "--repeats", 1000, stdout=subprocess.PIPE, stderr=written)
    os.close(written)
    shown_on(controller, until=b"sample 2")
    process.send_signal(number)
    assert process.stdout.read() == b""
    process.stdout.close()
    assert shown_on(controller).rpartition("\r")[0].endswith(" \rpython -m kael bench: interrupted")
    assert process.wait(60) == 0


def test_bench_fails_in_one_line():
    assert "/nowhere" in run("bench", "--data", "/nowhere", code=1)


def test_bench_says_what_its_fresh_processes_said_last(checkpoint, monkeypatch, capsys):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    assert (
        _cli.main(["bench", "--data", str(checkpoint), "--repeats", "1", "--depths", "8", "--prompts", "8"])
        == 1
    )
    assert capsys.readouterr() == ("", "python -m kael bench: a fresh process failed: it said nothing\n")


@pytest.mark.skipif(sys.platform != "linux", reason="where a stack larger than memory fails in clone")
@sanitizer.starts_no_thread
def test_bench_without_threads_fails_in_one_line(checkpoint):
    command = [sys.executable, "-m", "kael", "bench", "--data", str(checkpoint), "--threads", "2"]
    done = subprocess.run(
        ["sh", "-c", f"ulimit -s {2**40}; exec {shlex.join(command)}"],
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(OPENBLAS_NUM_THREADS="1"),  # NumPy's would interrupt the process
    )
    if "ulimit" in done.stderr:
        pytest.skip("the limit of the stack cannot be raised here")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert "no thread could be started" in done.stderr
