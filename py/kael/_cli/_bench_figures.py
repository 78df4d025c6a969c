"""The figures of ``bench``: one model's speed, start and memory, next to the machine's limits."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import kael
from kael import _generation, _machine
from kael._cli._progress_line import Progress
from kael._sampling import Sampling

# Tokens decoded for one sample.
BLOCK = 32

# Keys and values are float32 whatever the weights are.
_FLOAT_BYTES = 4

# int8 and int4: a scale of 2 bytes for each 64 and 32.
_BYTES_OF_A_WEIGHT = {"float32": 4.0, "bfloat16": 2.0, "int8": 1 + 2 / 64, "int4": 0.5 + 2 / 32}


class _Sizes(NamedTuple):
    """Counts of a model's numbers that follow from its configuration."""

    parameters: int
    weight_bytes: float  # of all weights, as they are kept in memory
    weight_bytes_per_token: float  # read to decode one token
    weights_per_position: int  # multiplied for each position of a prompt
    head: int  # multiplied once for each prompt
    keys_values_per_position: int


def _sizes(config: kael.GPTConfig, parameters: int, dtype: str) -> _Sizes:
    head = config.vocab_size * config.dimension
    positions = config.max_positions * config.dimension
    layers = config.layers * config.dimension * (4 * config.dimension + 2 * config.mlp_dimension)
    tables = head if config.tie_word_embeddings else 2 * head
    small = parameters - layers - tables - positions  # gains and biases, which stay float32
    each = _BYTES_OF_A_WEIGHT[dtype]
    return _Sizes(
        parameters=parameters,
        weight_bytes=each * (layers + tables) + 4 * (small + positions),
        # Of a tied embedding all is read, as the head; of one apart, and of the positions, a row is.
        weight_bytes_per_token=each * (layers + head) + 4 * small,
        weights_per_position=layers,
        head=head,
        keys_values_per_position=2 * config.layers * config.dimension,
    )


class ModelBench:
    """One model in one dtype, measured."""

    def __init__(self, folder: Path, dtype: str, repeats: int, progress: Progress) -> None:
        self._folder = folder
        self._dtype = dtype
        self._repeats = repeats
        self._progress = progress
        self._model = kael.GPT.from_pretrained(folder, dtype=dtype)
        self._config = self._model.config
        self._sizes = _sizes(self._config, self._model.parameter_count, dtype)
        self._threads = 1

    def describe_model(self) -> dict[str, Any]:
        """What does not depend on the dtype."""
        return {
            "folder": str(self._folder),
            "parameters": self._sizes.parameters,
            "file_bytes": sum(path.stat().st_size for path in self._folder.glob("*.safetensors")),
            "max_positions": self._config.max_positions,
        }

    def measure(self, threads: int, depths: list[int], prompts: list[int]) -> dict[str, Any]:
        """All figures for a number of threads."""
        self._threads = threads
        kael.set_num_threads(threads)
        return {
            "dtype": self._dtype,
            "threads": threads,
            "weight_bytes": round(self._sizes.weight_bytes),
            "decode": [self._decode(depth) for depth in self._usable("depth", depths, BLOCK // 2)],
            "prompt": [self._prompt(length) for length in self._usable("prompt", prompts, 0)],
            "start": self._start(max(depths)),
        }

    def _usable(self, what: str, lengths: list[int], margin: int) -> list[int]:
        """Those that fit in the model's positions; the others are named and left out."""
        longest = self._config.max_positions - margin
        for length in lengths:
            if length > longest:
                self._progress.note(
                    f"{what} {length} is left out: the model has {self._config.max_positions} positions"
                )
        return [length for length in lengths if length <= longest]

    def _decode(self, depth: int) -> dict[str, Any]:
        """Speed of single tokens around ``depth``, and its share of the bandwidth measured around each
        sample.
        """
        prompt = self._prompt_of(max(1, depth - BLOCK // 2))
        request = self._request(prompt, BLOCK + 1)
        middle = len(prompt) + BLOCK / 2
        keys_values = self._sizes.keys_values_per_position * middle * _FLOAT_BYTES
        weights = self._sizes.weight_bytes_per_token
        speeds, bandwidths, shares = [], [], []
        before = self._bandwidth()
        for sample in range(self._repeats):
            self._progress.show(f"{self._what()}, decode at {depth}: sample {sample + 1} of {self._repeats}")
            speed = BLOCK / self._model._generate(request).decode_seconds
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
            "weight_bytes_per_token": round(weights),
            "key_value_bytes_per_token": round(keys_values),
            "read_bytes_per_second": statistics.median(bandwidths),
            "bandwidth_share": share,
            "bandwidth_share_of_weights": share * weights / (weights + keys_values),
        }

    def _prompt(self, length: int) -> dict[str, Any]:
        """Speed of reading a prompt, and its share of the multiply-adds measured around each sample."""
        request = self._request(self._prompt_of(length), 1)
        attention = 2 * self._config.layers * self._config.dimension * length / 2
        operations = 2 * ((self._sizes.weights_per_position + attention) * length + self._sizes.head)
        speeds, limits, shares = [], [], []
        before = self._multiply_add()
        for sample in range(self._repeats):
            self._progress.show(f"{self._what()}, prompt of {length}: sample {sample + 1} of {self._repeats}")
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

    def _start(self, depth: int) -> dict[str, Any]:
        """Loading, the first token and the memory, in fresh processes: the median of them."""
        depth = min(depth, self._config.max_positions)
        samples = []
        repeats = min(self._repeats, 3)
        for sample in range(repeats):
            self._progress.show(f"{self._what()}, start: sample {sample + 1} of {repeats}")
            samples.append(self._fresh_process(depth))
        keys_values = self._sizes.keys_values_per_position * depth * _FLOAT_BYTES
        peak = statistics.median(sample["peak_resident_bytes"] for sample in samples)
        return {
            "load_seconds": statistics.median(sample["load_seconds"] for sample in samples),
            "first_token_seconds": statistics.median(sample["first_token_seconds"] for sample in samples),
            "depth": depth,
            "peak_resident_bytes": round(peak),
            "key_value_bytes": keys_values,
            "resident_above_weights_and_keys_values": round(peak - self._sizes.weight_bytes) - keys_values,
        }

    def _fresh_process(self, depth: int) -> dict[str, float]:
        package = str(Path(kael.__file__).resolve().parents[1])
        paths = [package, os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
        environment["KAEL_NUM_THREADS"] = str(self._threads)
        command = [sys.executable, "-m", "kael._cli._fresh_start", str(self._folder), self._dtype, str(depth)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)  # noqa: S603
        if done.returncode != 0:
            last = (done.stderr.strip().splitlines() or ["it said nothing"])[-1]
            raise kael.Error(f"a fresh process failed: {last}", kael.ErrorCode.INTERNAL)
        sample: dict[str, float] = json.loads(done.stdout)
        return sample

    def _what(self) -> str:
        return f"{self._dtype}, {self._threads} thread{'s' if self._threads > 1 else ''}"

    def _prompt_of(self, length: int) -> list[int]:
        return [position % self._config.vocab_size for position in range(length)]

    def _request(self, prompt: list[int], max_tokens: int) -> _generation.Request:
        sampling = Sampling(temperature=0.0)
        return _generation.Request(prompt, max_tokens, sampling, seed=0, reuse_prefix=False)

    def _bandwidth(self) -> float:
        return _machine.measure_read_bandwidth(self._threads, 3)

    def _multiply_add(self) -> float:
        return _machine.measure_multiply_add(self._dtype, self._threads, 3)
