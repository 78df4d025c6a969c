"""GPT-2 in the format of CTranslate2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from ctranslate2.specs import Activation, transformer_spec

from peers.engines.ctranslate2 import word
from peers.gpt2_checkpoint import Checkpoint


def convert(checkpoint: Checkpoint, folder: Path, dtype: str) -> None:
    spec = transformer_spec.TransformerDecoderModelSpec.from_config(
        checkpoint.layers, checkpoint.heads, pre_norm=True, activation=Activation.GELUTanh
    )
    decoder = spec.decoder
    decoder.scale_embeddings = False
    decoder.embeddings.weight = np.array(checkpoint["wte.weight"])
    decoder.position_encodings.encodings = np.array(checkpoint["wpe.weight"])
    decoder.projection.weight = np.array(decoder.embeddings.weight)  # quantized in place, each
    _fill_norm(decoder.layer_norm, checkpoint, "ln_f")
    for number, layer in enumerate(decoder.layer):
        name = f"h.{number}"
        _fill_norm(layer.self_attention.layer_norm, checkpoint, f"{name}.ln_1")
        _fill_linear(layer.self_attention.linear[0], checkpoint, f"{name}.attn.c_attn")
        _fill_linear(layer.self_attention.linear[1], checkpoint, f"{name}.attn.c_proj")
        _fill_norm(layer.ffn.layer_norm, checkpoint, f"{name}.ln_2")
        _fill_linear(layer.ffn.linear_0, checkpoint, f"{name}.mlp.c_fc")
        _fill_linear(layer.ffn.linear_1, checkpoint, f"{name}.mlp.c_proj")
    words = [word(token) for token in range(checkpoint.vocabulary)]
    spec.register_vocabulary(words)
    spec.config.bos_token = spec.config.eos_token = spec.config.unk_token = words[-1]
    spec.validate()
    spec.optimize(quantization=dtype)
    spec.save(str(folder))


def _fill_norm(spec: Any, checkpoint: Checkpoint, name: str) -> None:
    spec.gamma = np.array(checkpoint[f"{name}.weight"])
    spec.beta = np.array(checkpoint[f"{name}.bias"])


def _fill_linear(spec: Any, checkpoint: Checkpoint, name: str) -> None:
    spec.weight = np.array(checkpoint[f"{name}.weight"].T, order="C")  # GPT-2's files have inputs first
    spec.bias = np.array(checkpoint[f"{name}.bias"])
