"""ONNX Runtime, with a graph of its operators for language models: keys and values are extended in place."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime

from peers.interface import Stepwise

FILE = "model.onnx"


class _Engine(Stepwise):
    def __init__(self, folder: Path, threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        self._session = onnxruntime.InferenceSession(
            folder / FILE, options, providers=["CPUExecutionProvider"]
        )
        self._binding = self._session.io_binding()
        for cache in self._session.get_inputs():
            if cache.name.startswith("past."):
                values = onnxruntime.OrtValue.ortvalue_from_numpy(np.zeros(cache.shape, np.float32))
                self._binding.bind_ortvalue_input(cache.name, values)
                self._binding.bind_ortvalue_output(cache.name.replace("past", "present"), values)
        logits = np.empty(self._session.get_outputs()[0].shape, np.float32)
        self._logits = onnxruntime.OrtValue.ortvalue_from_numpy(logits)
        self._binding.bind_ortvalue_output("logits", self._logits)

    def forget(self) -> None:
        self._length = 0

    def step(self, ids: list[int]) -> int:
        begin, self._length = self._length, self._length + len(ids)
        self._binding.bind_cpu_input("ids", np.array([ids], np.int64))
        self._binding.bind_cpu_input("positions", np.arange(begin, self._length, dtype=np.int64))
        self._binding.bind_cpu_input("last_position", np.array([[self._length - 1]], np.int32))
        self._binding.bind_cpu_input("length", np.array(self._length, np.int32))
        self._session.run_with_iobinding(self._binding)
        return int(self._logits.numpy().argmax())


def load(_source: Path, folder: Path, _dtype: str, threads: int) -> _Engine:
    return _Engine(folder, threads)
