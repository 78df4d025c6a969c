"""A model as a folder in the format of GPT-2's checkpoints (docs/formats/gpt2.md)."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from kael import _checks
from kael._made_folder import made_folder
from kael._replaced_file import replace_file
from kael._safetensors import save_safetensors

if TYPE_CHECKING:
    from kael._gpt import GPT

_ACTIVATIONS = {"gelu_tanh": "gelu_new", "gelu_erf": "gelu", "relu": "relu"}
_DTYPES = ("float32", "float16", "bfloat16")


def save_pretrained(
    model: GPT, folder: str | bytes | os.PathLike[Any], dtype: str, end_of_text: int | None
) -> None:
    """Writes ``config.json`` and ``model.safetensors``, each whole or not at all."""
    _checks.choice("dtype", dtype, _DTYPES)
    path = os.fsdecode(_checks.path("folder", folder))
    tensors = {
        name if name.startswith("lm_head.") else f"transformer.{name}": tensor.to(dtype)
        for name, tensor in model.state_dict().items()
    }
    text = json.dumps(_config_fields(model, dtype, end_of_text), indent=2) + "\n"
    with made_folder(path):
        save_safetensors(os.path.join(path, "model.safetensors"), tensors, {"format": "pt"})
        replace_file(os.path.join(path, "config.json"), text.encode())


def _config_fields(model: GPT, dtype: str, end_of_text: int | None) -> dict[str, Any]:
    config = model.config
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": config.vocab_size,
        "n_positions": config.max_positions,
        "n_layer": config.layers,
        "n_head": config.heads,
        "n_embd": config.dimension,
        "n_inner": config.inner_dimension or None,
        "layer_norm_epsilon": config.layer_norm_epsilon,
        "activation_function": _ACTIVATIONS[config.activation],
        "scale_attn_weights": config.scale_attention,
        "scale_attn_by_inverse_layer_idx": config.scale_attention_by_inverse_layer,
        "tie_word_embeddings": config.tie_word_embeddings,
        "embd_pdrop": model.dropout,
        "attn_pdrop": 0.0,  # where it is absent, others take 0.1 when they train on
        "resid_pdrop": model.dropout,
        "bos_token_id": end_of_text,
        "eos_token_id": end_of_text,
        "torch_dtype": dtype,
    }
