"""GPT-2 as a graph of ONNX's operators and ONNX Runtime's own; its tools make matrices int8 or int4."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import GraphProto, ModelProto, TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

from peers.engines.onnx_runtime import FILE
from peers.gpt2_checkpoint import Checkpoint

_INT8_ACTIVATIONS = 4  # the quantizer's accuracy level of that name, which is the fastest

_OPSET = 20  # the first with Gelu
_IR_VERSION = 10
_MICROSOFT = "com.microsoft"  # ONNX Runtime's own operators


def convert(checkpoint: Checkpoint, folder: Path, dtype: str) -> None:
    model = _build(checkpoint, copy_head=dtype == "int4")
    if dtype == "int8":
        quantize_dynamic(
            model,
            folder / FILE,
            weight_type=QuantType.QInt8,
            op_types_to_quantize=["MatMul", "Gemm"],
            per_channel=True,
            extra_options={"MatMulConstBOnly": True, "DefaultTensorType": TensorProto.FLOAT},
        )
        return
    if dtype == "int4":
        quantizer = MatMulNBitsQuantizer(
            model, bits=4, block_size=32, is_symmetric=True, accuracy_level=_INT8_ACTIVATIONS
        )
        quantizer.process()
        model = quantizer.model.model
    onnx.save(model, folder / FILE)


def _build(checkpoint: Checkpoint, *, copy_head: bool) -> ModelProto:
    """The model, with caches of all positions as inputs and outputs, which may be the same memory; logits of
    the last token alone. ``copy_head`` gives the last product a matrix of its own, for a tool that changes
    matrices and not embeddings.
    """
    graph = _Graph(checkpoint, copy_head)
    opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid(_MICROSOFT, 1)]
    return helper.make_model(graph.proto(), opset_imports=opsets, ir_version=_IR_VERSION)


class _Graph:
    def __init__(self, checkpoint: Checkpoint, copy_head: bool) -> None:
        self._checkpoint = checkpoint
        self._nodes: list[Any] = []
        self._constants: dict[str, TensorProto] = {}
        self._caches: list[str] = []
        hidden = self._node(
            "Add",
            self._node("Gather", self._weight("wte.weight"), "ids"),
            self._node("Gather", self._weight("wpe.weight"), "positions"),
        )
        for layer in range(checkpoint.layers):
            hidden = self._layer(hidden, f"h.{layer}", layer)
        hidden = self._norm(hidden, "ln_f")
        last = self._node("Gather", hidden, self._constant("last", np.array(-1, np.int64)), axis=1)
        if copy_head:
            head = self._constant("head", np.ascontiguousarray(checkpoint["wte.weight"].T))
            self._node("MatMul", last, head, to=["logits"])
        else:
            self._node("Gemm", last, self._weight("wte.weight"), to=["logits"], transB=1)

    def proto(self) -> GraphProto:
        sizes = self._checkpoint
        cache = [1, sizes.heads, sizes.positions, sizes.head_width]
        inputs = [
            helper.make_tensor_value_info("ids", TensorProto.INT64, [1, "new"]),
            helper.make_tensor_value_info("positions", TensorProto.INT64, ["new"]),
            helper.make_tensor_value_info("last_position", TensorProto.INT32, [1, 1]),
            helper.make_tensor_value_info("length", TensorProto.INT32, []),
        ]
        outputs = [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [1, sizes.vocabulary])]
        for name in self._caches:
            inputs.append(helper.make_tensor_value_info(f"past.{name}", TensorProto.FLOAT, cache))
            outputs.append(helper.make_tensor_value_info(f"present.{name}", TensorProto.FLOAT, cache))
        return helper.make_graph(self._nodes, "gpt2", inputs, outputs, [*self._constants.values()])

    def _layer(self, hidden: str, name: str, layer: int) -> str:
        joined = self._linear(self._norm(hidden, f"{name}.ln_1"), f"{name}.attn.c_attn")
        attended = self._attention(joined, layer)
        hidden = self._node("Add", hidden, self._linear(attended, f"{name}.attn.c_proj"))
        inner = self._linear(self._norm(hidden, f"{name}.ln_2"), f"{name}.mlp.c_fc")
        active = self._node("Gelu", inner, approximate="tanh")
        return self._node("Add", hidden, self._linear(active, f"{name}.mlp.c_proj"))

    def _attention(self, joined: str, layer: int) -> str:
        """Queries, keys and values stand beside each other in ``joined``; keys and values go to the cache."""
        names = [f"{layer}.key", f"{layer}.value"]
        self._caches += names
        output = f"attended.{layer}"
        self._node(
            "GroupQueryAttention",
            joined,
            "",
            "",
            *(f"past.{name}" for name in names),
            "last_position",
            "length",
            to=[output, *(f"present.{name}" for name in names)],
            domain=_MICROSOFT,
            num_heads=self._checkpoint.heads,
            kv_num_heads=self._checkpoint.heads,
        )
        return output

    def _linear(self, values: str, name: str) -> str:
        product = self._node("MatMul", values, self._weight(f"{name}.weight"))
        return self._node("Add", product, self._weight(f"{name}.bias"))

    def _norm(self, values: str, name: str) -> str:
        weights = [self._weight(f"{name}.{kind}") for kind in ("weight", "bias")]
        return self._node("LayerNormalization", values, *weights, axis=-1, epsilon=self._checkpoint.epsilon)

    def _weight(self, name: str) -> str:
        return self._constant(name, self._checkpoint[name])

    def _constant(self, name: str, values: np.ndarray[Any, Any]) -> str:
        if name not in self._constants:
            self._constants[name] = numpy_helper.from_array(np.asarray(values), name)
        return name

    def _node(self, kind: str, *inputs: str, to: list[str] | None = None, **attributes: Any) -> str:
        outputs = to or [f"{kind}.{len(self._nodes)}"]
        self._nodes.append(helper.make_node(kind, inputs, outputs, name=f"node.{outputs[0]}", **attributes))
        return outputs[0]
