"""A GPT-2 checkpoint of one token a byte with seeded random weights, as a folder on disk."""

from __future__ import annotations

import json
import struct

import numpy as np

VOCABULARY, POSITIONS, LAYERS, HEADS, WIDTH = 257, 1024, 1, 2, 16
END_OF_TEXT = 256


def write(folder, positions=POSITIONS, layers=LAYERS, width=WIDTH):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(configuration(positions, layers, width)))
    (folder / "vocab.json").write_text(json.dumps(vocabulary()))
    (folder / "merges.txt").write_text("#version: 0.2\n")
    write_safetensors(folder / "model.safetensors", weights(positions, layers, width))
    return folder


def configuration(positions, layers, width):
    return {
        "model_type": "gpt2",
        "vocab_size": VOCABULARY,
        "n_positions": positions,
        "n_embd": width,
        "n_layer": layers,
        "n_head": HEADS,
        "activation_function": "gelu_new",
        "layer_norm_epsilon": 1e-5,
    }


def vocabulary():
    """GPT-2 writes a byte as the character of that number or, where that cannot be seen, as one above 255."""
    visible = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = (byte for byte in range(256) if byte not in visible)
    characters = {byte: chr(byte) for byte in visible}
    characters.update({byte: chr(256 + number) for number, byte in enumerate(hidden)})
    return {**{characters[byte]: byte for byte in range(256)}, "<|endoftext|>": END_OF_TEXT}


def weights(positions, layers, width):
    random = np.random.default_rng(7)

    def normal(*shape):
        return (random.standard_normal(shape) * 0.3).astype(np.float32)

    def norm(name):
        return {f"{name}.weight": 1 + normal(width), f"{name}.bias": normal(width)}

    def linear(name, inputs, outputs):
        return {f"{name}.weight": normal(inputs, outputs), f"{name}.bias": normal(outputs)}

    tensors = {"wte.weight": normal(VOCABULARY, width), "wpe.weight": normal(positions, width)}
    for layer in range(layers):
        block = f"h.{layer}"
        tensors |= norm(f"{block}.ln_1") | norm(f"{block}.ln_2")
        tensors |= linear(f"{block}.attn.c_attn", width, 3 * width)
        tensors |= linear(f"{block}.attn.c_proj", width, width)
        tensors |= linear(f"{block}.mlp.c_fc", width, 4 * width)
        tensors |= linear(f"{block}.mlp.c_proj", 4 * width, width)
    return tensors | norm("ln_f")


def write_safetensors(path, tensors):
    header, offset = {}, 0
    for name, tensor in tensors.items():
        end = offset + tensor.nbytes
        header[name] = {"dtype": "F32", "shape": tensor.shape, "data_offsets": [offset, end]}
        offset = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for tensor in tensors.values():
            file.write(tensor.tobytes())
