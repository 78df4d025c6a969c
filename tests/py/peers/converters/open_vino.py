"""GPT-2 as a stateful graph of OpenVINO: keys and values stay in the request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import openvino
from openvino import Model, Type
from openvino import opset13 as ops
from openvino.op.util import Variable, VariableInfo

from peers.engines.open_vino import FILE
from peers.gpt2_checkpoint import Checkpoint

_ANY = -1
_INT4_GROUP = 64


def _as_it_is(weights: np.ndarray[Any, Any]) -> Any:
    return ops.constant(np.asarray(weights))


def _as_int8(weights: np.ndarray[Any, Any]) -> Any:
    """With a scale for each row."""
    scales = _scales(weights, 127)
    return _scaled(ops.constant(np.rint(weights / scales).astype(np.int8)), scales)


def _as_int4(weights: np.ndarray[Any, Any]) -> Any:
    """With a scale for each group of a row."""
    groups = weights.reshape(len(weights), -1, _INT4_GROUP)
    scales = _scales(groups, 7)
    rounded = np.rint(groups / scales).astype(np.int8).view(np.uint8) & 15
    pairs = rounded[..., 0::2] | rounded[..., 1::2] << 4
    values = openvino.Tensor(np.ascontiguousarray(pairs), openvino.Shape(groups.shape), Type.i4)
    return ops.reshape(
        _scaled(ops.constant(values, shared_memory=False), scales), _integers(weights.shape), False
    )


def _scales(weights: np.ndarray[Any, Any], largest: int) -> np.ndarray[Any, Any]:
    return np.maximum(np.abs(weights).max(axis=-1, keepdims=True), np.finfo(np.float32).tiny) / largest


def _scaled(integers: Any, scales: np.ndarray[Any, Any]) -> Any:
    return ops.multiply(ops.convert(integers, Type.f32), ops.constant(scales))


# bfloat16 is a setting of the engine, which reads float32.
_MATRICES = {"float32": _as_it_is, "bfloat16": _as_it_is, "int8": _as_int8, "int4": _as_int4}


def convert(checkpoint: Checkpoint, folder: Path, dtype: str) -> None:
    model = _Graph(checkpoint, _MATRICES[dtype]).model
    openvino.save_model(model, folder / FILE, compress_to_fp16=False)


class _Graph:
    def __init__(self, checkpoint: Checkpoint, matrix: Callable[[np.ndarray[Any, Any]], Any]) -> None:
        self._checkpoint, self._matrix = checkpoint, matrix
        self._states: list[Any] = []
        ids = self._input([_ANY, _ANY], Type.i64, "ids")
        positions = self._input([_ANY, _ANY], Type.i64, "positions")
        self._beam = self._input([_ANY], Type.i32, "beam_idx")  # the pattern of states in place has it
        self._batch = ops.gather(ops.shape_of(ids), _integers(0), _integers(0))
        embeddings = self._matrix(checkpoint["wte.weight"])
        hidden = ops.add(
            ops.gather(embeddings, ids, _integers(0)),
            ops.gather(ops.constant(np.asarray(checkpoint["wpe.weight"])), positions, _integers(0)),
        )
        for layer in range(checkpoint.layers):
            hidden = self._layer(hidden, f"h.{layer}")
        last = ops.gather(self._norm(hidden, "ln_f"), _integers([-1]), _integers(1))
        logits = ops.result(ops.matmul(last, embeddings, False, True))
        self.model = Model([logits], self._states, [ids, positions, self._beam], "gpt2")

    def _layer(self, hidden: Any, name: str) -> Any:
        joined = self._linear(self._norm(hidden, f"{name}.ln_1"), f"{name}.attn.c_attn")
        query, key, value = (self._heads(part) for part in ops.split(joined, _integers(2), 3).outputs())
        attended = ops.scaled_dot_product_attention(
            query, self._extended(key, f"{name}.key"), self._extended(value, f"{name}.value"), causal=True
        )
        merged = ops.reshape(
            ops.transpose(attended, _integers([0, 2, 1, 3])), _integers([0, 0, self._checkpoint.width]), True
        )
        hidden = ops.add(hidden, self._linear(merged, f"{name}.attn.c_proj"))
        inner = self._linear(self._norm(hidden, f"{name}.ln_2"), f"{name}.mlp.c_fc")
        return ops.add(hidden, self._linear(ops.gelu(inner, "tanh"), f"{name}.mlp.c_proj"))

    def _heads(self, joined: Any) -> Any:
        shape = _integers([0, 0, self._checkpoint.heads, self._checkpoint.head_width])
        return ops.transpose(ops.reshape(joined, shape, True), _integers([0, 2, 1, 3]))

    def _extended(self, new: Any, name: str) -> Any:
        """The state of that name with ``new`` behind it, which is the state then."""
        sizes = self._checkpoint
        info = VariableInfo()
        info.data_shape = openvino.PartialShape([_ANY, sizes.heads, _ANY, sizes.head_width])
        info.data_type, info.variable_id = Type.f32, name
        variable = Variable(info)
        parts = [
            ops.unsqueeze(self._batch, _integers(0)),
            *map(_integers, ([sizes.heads], [0], [sizes.head_width])),
        ]
        empty = ops.broadcast(ops.constant(np.float32(0)), ops.concat(parts, 0))
        before = ops.gather(ops.read_value(empty, variable), self._beam, _integers(0))
        extended = ops.concat([before, new], 2)
        self._states.append(ops.assign(extended, variable))
        return extended

    def _linear(self, values: Any, name: str) -> Any:
        weights = self._matrix(np.ascontiguousarray(self._checkpoint[f"{name}.weight"].T))
        bias = self._checkpoint[f"{name}.bias"]
        return ops.add(
            ops.matmul(values, weights, False, True), ops.constant(np.asarray(bias).reshape(1, 1, -1))
        )

    def _norm(self, values: Any, name: str) -> Any:
        weight, bias = (
            ops.constant(np.asarray(self._checkpoint[f"{name}.{kind}"]).reshape(1, 1, -1))
            for kind in ("weight", "bias")
        )
        normal = ops.mvn(values, _integers([-1]), True, self._checkpoint.epsilon, "inside_sqrt")
        return ops.add(ops.multiply(normal, weight), bias)

    @staticmethod
    def _input(shape: list[int], kind: Any, name: str) -> Any:
        node = ops.parameter(openvino.PartialShape(shape), kind, name)
        node.output(0).tensor.names = {name}
        return node


def _integers(values: Any) -> Any:
    return ops.constant(np.array(values, np.int64))
