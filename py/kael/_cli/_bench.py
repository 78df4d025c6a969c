"""Measure a model next to what the machine can do.

Decoding is held against the memory bandwidth, prompts against the multiply-adds of the processor. Both limits
are measured in the same run, before and after each sample, since a machine's limits move by the minute.
Figures are medians.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import kael
from kael import _early, _generation, _machine
from kael._cli import _arguments
from kael._sampling import Sampling

# Tokens decoded for one sample.
_BLOCK = 32
_FLOAT_BYTES = 4


def add_arguments(parser: argparse.ArgumentParser) -> None:
    _arguments.add_data(parser)
    _arguments.add_threads(parser)
    lengths = _arguments.whole_numbers(1, 2**20)
    parser.add_argument(
        "--depths",
        metavar="N,N",
        type=lengths,
        default=[32, 512],
        help="decode about this far into a text (default: 32,512)",
    )
    parser.add_argument(
        "--prompts",
        metavar="N,N",
        type=lengths,
        default=[512],
        help="lengths of prompts to read (default: 512)",
    )
    parser.add_argument(
        "--repeats",
        metavar="N",
        type=_arguments.whole_number(1, 1000),
        default=5,
        help="samples (default: 5)",
    )
    parser.add_argument("--json", action="store_true", help="JSON, also where the output is a terminal")


def run(options: argparse.Namespace) -> int:
    _arguments.apply_threads(options)
    folder = _arguments.data_folder(options)
    progress = _Progress()
    try:
        with _early.signals_interrupt():
            report = _measure(options, _Bench(folder, options.repeats, progress))
    finally:
        progress.clear()
    if options.json or not sys.stdout.isatty():
        print(json.dumps(report))
    else:
        _show(report)
    return 0


def _measure(options: argparse.Namespace, bench: _Bench) -> dict[str, Any]:
    return {
        "version": kael.__version__,
        "build": kael.build_info(),
        "machine": {"processor": _machine.processor_name(), "processors": _machine.processor_count()},
        "threads": bench.threads,
        "model": bench.describe_model(),
        "decode": [bench.decode(depth) for depth in bench.usable("depth", options.depths, _BLOCK // 2)],
        "prompt": [bench.prompt(length) for length in bench.usable("prompt", options.prompts, 0)],
        "start": bench.start(max(options.depths)),
    }


class _Sizes(NamedTuple):
    """Counts of a model's numbers that follow from its configuration."""

    parameters: int
    weights_per_token: int  # read to decode one token
    weights_per_position: int  # multiplied for each position of a prompt
    head: int  # multiplied once for each prompt
    keys_values_per_position: int


def _sizes(config: kael.GPTConfig, parameters: int) -> _Sizes:
    head = config.vocab_size * config.dimension
    positions = config.max_positions * config.dimension
    layers = config.layers * config.dimension * (4 * config.dimension + 2 * config.mlp_dimension)
    # A tied embedding is read whole, as the head; of one apart, and of the positions, a row is.
    rows_only = positions if config.tie_word_embeddings else positions + head
    return _Sizes(
        parameters=parameters,
        weights_per_token=parameters - rows_only,
        weights_per_position=layers,
        head=head,
        keys_values_per_position=2 * config.layers * config.dimension,
    )


class _Bench:
    """One model, measured."""

    def __init__(self, folder: Path, repeats: int, progress: _Progress) -> None:
        self._folder = folder
        self._repeats = repeats
        self._progress = progress
        self._model = kael.GPT.from_pretrained(folder)
        self._config = self._model.config
        self._sizes = _sizes(self._config, self._model.parameter_count)
        self.threads = kael.get_num_threads()

    def describe_model(self) -> dict[str, Any]:
        return {
            "folder": str(self._folder),
            "parameters": self._sizes.parameters,
            "file_bytes": sum(path.stat().st_size for path in self._folder.glob("*.safetensors")),
            "max_positions": self._config.max_positions,
        }

    def usable(self, what: str, lengths: list[int], margin: int) -> list[int]:
        """Those that fit in the model's positions; the others are named and left out."""
        longest = self._config.max_positions - margin
        for length in lengths:
            if length > longest:
                self._progress.note(
                    f"{what} {length} is left out: the model has {self._config.max_positions} positions"
                )
        return [length for length in lengths if length <= longest]

    def decode(self, depth: int) -> dict[str, Any]:
        """Speed of single tokens around ``depth``, and its share of the bandwidth measured around each
        sample.
        """
        prompt = self._prompt_of(max(1, depth - _BLOCK // 2))
        request = self._request(prompt, _BLOCK + 1)
        middle = len(prompt) + _BLOCK / 2
        keys_values = self._sizes.keys_values_per_position * middle * _FLOAT_BYTES
        weights = self._sizes.weights_per_token * _FLOAT_BYTES
        speeds, bandwidths, shares = [], [], []
        before = self._bandwidth()
        for sample in range(self._repeats):
            self._progress.show(f"decode at {depth}: sample {sample + 1} of {self._repeats}")
            speed = _BLOCK / self._model._generate(request).decode_seconds
            after = self._bandwidth()
            bandwidth = (before + after) / 2
            speeds.append(speed)
            bandwidths.append(bandwidth)
            shares.append((weights + keys_values) * speed / bandwidth)
            before = after
        share = statistics.median(shares)
        return {
            "depth": depth,
            "tokens_per_second": statistics.median(speeds),
            "weight_bytes_per_token": weights,
            "key_value_bytes_per_token": round(keys_values),
            "read_bytes_per_second": statistics.median(bandwidths),
            "bandwidth_share": share,
            "bandwidth_share_of_weights": share * weights / (weights + keys_values),
        }

    def prompt(self, length: int) -> dict[str, Any]:
        """Speed of reading a prompt, and its share of the multiply-adds measured around each sample."""
        request = self._request(self._prompt_of(length), 1)
        attention = 2 * self._config.layers * self._config.dimension * length / 2
        operations = 2 * ((self._sizes.weights_per_position + attention) * length + self._sizes.head)
        speeds, limits, shares = [], [], []
        before = self._multiply_add()
        for sample in range(self._repeats):
            self._progress.show(f"prompt of {length}: sample {sample + 1} of {self._repeats}")
            seconds = self._model._generate(request).prompt_seconds
            after = self._multiply_add()
            limit = (before + after) / 2
            speeds.append(length / seconds)
            limits.append(limit)
            shares.append(operations / seconds / limit)
            before = after
        return {
            "tokens": length,
            "tokens_per_second": statistics.median(speeds),
            "operations_per_second": statistics.median(limits),
            "operations_share": statistics.median(shares),
        }

    def start(self, depth: int) -> dict[str, Any]:
        """Loading, the first token and the memory, in fresh processes: the median of them."""
        depth = min(depth, self._config.max_positions)
        samples = []
        repeats = min(self._repeats, 3)
        for sample in range(repeats):
            self._progress.show(f"start: sample {sample + 1} of {repeats}")
            samples.append(self._fresh_process(depth))
        keys_values = self._sizes.keys_values_per_position * depth * _FLOAT_BYTES
        file_bytes = self.describe_model()["file_bytes"]
        peak = statistics.median(sample["peak_resident_bytes"] for sample in samples)
        return {
            "load_seconds": statistics.median(sample["load_seconds"] for sample in samples),
            "first_token_seconds": statistics.median(sample["first_token_seconds"] for sample in samples),
            "depth": depth,
            "peak_resident_bytes": round(peak),
            "key_value_bytes": keys_values,
            "resident_above_file_and_keys_values": round(peak) - file_bytes - keys_values,
        }

    def _fresh_process(self, depth: int) -> dict[str, float]:
        package = str(Path(kael.__file__).resolve().parents[1])
        paths = [package, os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        environment["KAEL_NUM_THREADS"] = str(self.threads)
        command = [sys.executable, "-m", "kael._cli._fresh_start", str(self._folder), str(depth)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)  # noqa: S603
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise kael.Error(f"a fresh process failed: {last}", kael.ErrorCode.INTERNAL)
        sample: dict[str, float] = json.loads(done.stdout)
        return sample

    def _prompt_of(self, length: int) -> list[int]:
        return [position % self._config.vocab_size for position in range(length)]

    def _request(self, prompt: list[int], max_tokens: int) -> _generation.Request:
        return _generation.Request(prompt, max_tokens, Sampling(temperature=0.0), seed=0)

    def _bandwidth(self) -> float:
        return _machine.measure_read_bandwidth(self.threads, 3)

    def _multiply_add(self) -> float:
        return _machine.measure_multiply_add(self.threads, 3)


class _Progress:
    """One line on standard error, where that is a terminal, that says what is being measured."""

    def __init__(self) -> None:
        self._visible = sys.stderr is not None and sys.stderr.isatty()
        self._length = 0

    def show(self, text: str) -> None:
        """Puts ``text`` in the place of what the line said."""
        if self._visible:
            print("\r" + text.ljust(self._length), end="", file=sys.stderr, flush=True)
            self._length = len(text)

    def note(self, text: str) -> None:
        """A line that stays."""
        self.clear()
        if self._visible:
            print(text, file=sys.stderr)

    def clear(self) -> None:
        """Leaves an empty line, for whatever is written next."""
        if self._length:
            self.show("")
            print("\r", end="", file=sys.stderr, flush=True)


def _show(report: dict[str, Any]) -> None:
    model, start = report["model"], report["start"]
    print(f"kael {report['version']} ({report['build']}) with {report['threads']} threads")
    print(f"on {report['machine']['processor']}, {report['machine']['processors']} processors")
    print(f"{model['folder']}: {model['parameters']:,} parameters, file of {_megabytes(model['file_bytes'])}")
    for row in report["decode"]:
        print(
            f"  decode at {row['depth']:>4}   {row['tokens_per_second']:8.1f} tokens/s   "
            f"{row['bandwidth_share']:4.0%} of {row['read_bytes_per_second'] / 1e9:.1f} GB/s read "
            f"({row['bandwidth_share_of_weights']:.0%} by weights alone)"
        )
    for row in report["prompt"]:
        print(
            f"  prompt of {row['tokens']:>4}   {row['tokens_per_second']:8.1f} tokens/s   "
            f"{row['operations_share']:4.0%} of {row['operations_per_second'] / 1e9:.0f} GFLOP/s"
        )
    print(f"  load             {start['load_seconds'] * 1000:8.1f} ms")
    print(f"  first token      {start['first_token_seconds'] * 1000:8.1f} ms from the start of loading")
    print(
        f"  peak memory      {_megabytes(start['peak_resident_bytes'])} at depth {start['depth']}: file and "
        f"keys/values + {_megabytes(start['resident_above_file_and_keys_values'])}"
    )


def _megabytes(count: float) -> str:
    return f"{count / 1e6:.1f} MB"
