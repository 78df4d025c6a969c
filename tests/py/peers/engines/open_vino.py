"""OpenVINO, with a graph that keeps keys and values as its state."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import openvino

from peers.interface import Stepwise

FILE = "model.xml"


class _Engine(Stepwise):
    def __init__(self, folder: Path, dtype: str, threads: int) -> None:
        settings = {
            "INFERENCE_NUM_THREADS": threads,
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_PRECISION_HINT": "bf16" if dtype == "bfloat16" else "f32",
        }
        model = openvino.Core().compile_model(folder / FILE, "CPU", settings)
        self._request = model.create_infer_request()

    def forget(self) -> None:
        self._request.reset_state()
        self._length = 0

    def step(self, ids: list[int]) -> int:
        begin, self._length = self._length, self._length + len(ids)
        inputs = {
            "ids": np.array([ids], np.int64),
            "positions": np.arange(begin, self._length, dtype=np.int64)[None],
            "beam_idx": np.zeros(1, np.int32),
        }
        self._request.start_async(inputs, share_inputs=True)
        self._request.wait()
        return int(self._request.get_output_tensor().data.argmax())


def load(_source: Path, folder: Path, dtype: str, threads: int) -> _Engine:
    return _Engine(folder, dtype, threads)
