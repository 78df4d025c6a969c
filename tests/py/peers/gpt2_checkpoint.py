"""The weights and sizes of a GPT-2 checkpoint, read with NumPy alone: what every converter starts from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

_PREFIX = "transformer."


class Checkpoint:
    """A folder with config.json and a model.safetensors of float32 weights, which stay mapped."""

    def __init__(self, folder: Path) -> None:
        path = folder / "config.json"
        config: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        missing = {"n_layer", "n_head", "n_embd", "n_positions", "vocab_size"} - config.keys()
        if missing:
            raise ValueError(
                f"{path}: {', '.join(sorted(missing))} is missing, expected the sizes of a GPT-2"
            )
        self.layers: int = config["n_layer"]
        self.heads: int = config["n_head"]
        self.width: int = config["n_embd"]
        self.positions: int = config["n_positions"]
        self.vocabulary: int = config["vocab_size"]
        self.epsilon: float = config.get("layer_norm_epsilon", 1e-5)
        self._path = folder / "model.safetensors"
        with self._path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            entries = json.loads(file.read(length))
        self._begin = 8 + length
        self._entries = {
            name.removeprefix(_PREFIX): entry for name, entry in entries.items() if name != "__metadata__"
        }

    @property
    def head_width(self) -> int:
        return self.width // self.heads

    def __getitem__(self, name: str) -> np.ndarray[Any, np.dtype[np.float32]]:
        """A tensor by its name in the file, without the prefix of the model."""
        entry = self._entries[name]
        if entry["dtype"] != "F32":
            raise ValueError(f"{self._path}: {name} is {entry['dtype']}, expected F32")
        begin = self._begin + entry["data_offsets"][0]
        return np.memmap(self._path, "<f4", "r", begin, tuple(entry["shape"]))
