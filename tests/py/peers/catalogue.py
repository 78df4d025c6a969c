"""The engines by the names that they have on the command line, and what each needs."""

from __future__ import annotations

from dataclasses import dataclass

from kael import _signatures


@dataclass(frozen=True)
class Entry:
    """An engine, before its library is imported."""

    title: str
    module: str  # of peers.engines
    packages: dict[
        str, str
    ]  # modules that it imports, and what pip calls them; the first one's version is shown
    dtypes: tuple[str, ...]


KAEL = "kael"

ENGINES = {
    KAEL: Entry("kael", "kael", {"kael": "kael"}, _signatures.WEIGHT_FORMATS),
    "pytorch": Entry(
        "PyTorch", "pytorch", {"torch": "torch", "transformers": "transformers"}, ("float32", "bfloat16")
    ),
    "llama.cpp": Entry(
        "llama.cpp",
        "llama_cpp",
        {"llama_cpp": "llama-cpp-python", "gguf": "gguf"},
        ("float32", "bfloat16", "int8", "int4"),
    ),
    "onnxruntime": Entry(
        "ONNX Runtime",
        "onnx_runtime",
        {"onnxruntime": "onnxruntime", "onnx": "onnx", "onnx_ir": "onnx-ir"},
        ("float32", "int8", "int4"),
    ),
    "openvino": Entry(
        "OpenVINO", "open_vino", {"openvino": "openvino"}, ("float32", "bfloat16", "int8", "int4")
    ),
    "ctranslate2": Entry("CTranslate2", "ctranslate2", {"ctranslate2": "ctranslate2"}, ("float32", "int8")),
}

DTYPES = tuple(dict.fromkeys(dtype for entry in ENGINES.values() for dtype in entry.dtypes))
