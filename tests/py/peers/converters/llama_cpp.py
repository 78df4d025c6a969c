"""GPT-2 as a GGUF file, quantized by llama.cpp itself."""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import gguf
import llama_cpp as library
import numpy as np

from peers.engines.llama_cpp import FILE, say_nothing
from peers.gpt2_checkpoint import Checkpoint

_WRITTEN = {"float32": gguf.GGMLQuantizationType.F32, "bfloat16": gguf.GGMLQuantizationType.BF16}
_QUANTIZED = {"int8": library.LLAMA_FTYPE_MOSTLY_Q8_0, "int4": library.LLAMA_FTYPE_MOSTLY_Q4_0}


def convert(checkpoint: Checkpoint, folder: Path, dtype: str) -> None:
    if dtype in _WRITTEN:
        _write(checkpoint, folder / FILE, _WRITTEN[dtype])
        return
    whole = folder / "float32.gguf"
    _write(checkpoint, whole, _WRITTEN["float32"])
    library.llama_log_set(say_nothing, None)
    options = library.llama_model_quantize_default_params()
    options.ftype = _QUANTIZED[dtype]
    status = library.llama_model_quantize(
        str(whole).encode(), str(folder / FILE).encode(), ctypes.byref(options)
    )
    if status != 0:
        raise RuntimeError(f"llama_model_quantize ended with {status}")
    whole.unlink()


def _write(checkpoint: Checkpoint, path: Path, kind: gguf.GGMLQuantizationType) -> None:
    writer = gguf.GGUFWriter(path, "gpt2")
    writer.add_block_count(checkpoint.layers)
    writer.add_context_length(checkpoint.positions)
    writer.add_embedding_length(checkpoint.width)
    writer.add_feed_forward_length(checkpoint["h.0.mlp.c_fc.bias"].shape[0])
    writer.add_head_count(checkpoint.heads)
    writer.add_layer_norm_eps(checkpoint.epsilon)
    writer.add_vocab_size(checkpoint.vocabulary)
    writer.add_tokenizer_model("none")  # ids go in and come out

    def add(name: str, values: np.ndarray[Any, Any], kind: Any = gguf.GGMLQuantizationType.F32) -> None:
        values = np.ascontiguousarray(values)
        if kind == gguf.GGMLQuantizationType.F32:
            writer.add_tensor(name, values)
        else:
            writer.add_tensor(name, gguf.quants.quantize(values, kind), raw_dtype=kind)

    add("token_embd.weight", checkpoint["wte.weight"], kind)
    add("position_embd.weight", checkpoint["wpe.weight"])
    names = {"output_norm": "ln_f"}
    matrices = {}
    for layer in range(checkpoint.layers):
        names |= {f"blk.{layer}.attn_norm": f"h.{layer}.ln_1", f"blk.{layer}.ffn_norm": f"h.{layer}.ln_2"}
        matrices |= {
            f"blk.{layer}.attn_qkv": f"h.{layer}.attn.c_attn",
            f"blk.{layer}.attn_output": f"h.{layer}.attn.c_proj",
            f"blk.{layer}.ffn_up": f"h.{layer}.mlp.c_fc",
            f"blk.{layer}.ffn_down": f"h.{layer}.mlp.c_proj",
        }
    for theirs, ours in names.items():
        add(f"{theirs}.weight", checkpoint[f"{ours}.weight"])
        add(f"{theirs}.bias", checkpoint[f"{ours}.bias"])
    for theirs, ours in matrices.items():
        add(f"{theirs}.weight", checkpoint[f"{ours}.weight"].T, kind)  # GPT-2's files have inputs first
        add(f"{theirs}.bias", checkpoint[f"{ours}.bias"])
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
