"""The functions, structs and constants of ``kael.h`` as ctypes sees them.

tests/py/test_signatures.py compares everything here with the header and with the symbols of the library, in
both directions. Sizes and offsets follow from the order of the fields, which is the header's.
"""

from __future__ import annotations

import ctypes
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char,
    c_char_p,
    c_double,
    c_float,
    c_int32,
    c_int64,
    c_uint8,
    c_uint64,
    c_void_p,
)
from enum import Enum
from typing import Any, NamedTuple

ABI_VERSION = 2
MAX_RANK = 16

OK = 0
CALLBACK_FAILED = 7

# kael_dtype, in order.
DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool")

LOAD_COPY = 0
LOAD_MAPPED = 1

# kael_argument_kind, in order.
ARGUMENT_KINDS = ("none", "tensor", "tensors", "bool", "integer", "real", "integers")

# kael_activation, in order.
MATMUL_PRECISIONS = ("highest", "medium")
WEIGHT_FORMATS = ("float32", "bfloat16", "int8", "int4")
ACTIVATIONS = ("gelu_tanh", "gelu_erf", "relu")

TOKEN_FAILED = -1
TOKEN_STOP = 0
TOKEN_CONTINUE = 1


# Opaque handles: a pointer type for each, so that ctypes refuses a handle of another kind.
class TensorHandle(Structure):
    """``kael_tensor``."""


class NodeHandle(Structure):
    """``kael_node``."""


class MemoryRecordingHandle(Structure):
    """``kael_memory_recording``."""


class TensorMapHandle(Structure):
    """``kael_tensor_map``."""


class TokenizerHandle(Structure):
    """``kael_tokenizer``."""


class GptHandle(Structure):
    """``kael_gpt``."""


class TokenRingHandle(Structure):
    """``kael_token_ring``."""


TokenCallback = CFUNCTYPE(c_int32, c_void_p, c_int64)
StopCallback = CFUNCTYPE(c_uint8, c_void_p)
ReleaseCallback = CFUNCTYPE(None, c_void_p)
CapsuleIsValid = CFUNCTYPE(c_int32, c_void_p, POINTER(c_char))
CapsulePointer = CFUNCTYPE(c_void_p, c_void_p, POINTER(c_char))
GradientCallback = CFUNCTYPE(c_int32, POINTER(TensorHandle), POINTER(POINTER(TensorHandle)), c_void_p)
NodeCallback = CFUNCTYPE(
    c_int32,
    POINTER(POINTER(TensorHandle)),
    c_int64,
    POINTER(TensorHandle),
    POINTER(POINTER(TensorHandle)),
    POINTER(c_uint8),
    c_void_p,
)
CallSiteCallback = CFUNCTYPE(c_int32, POINTER(c_char), c_int64, POINTER(c_int64), c_void_p)
TraceCallback = CFUNCTYPE(None, POINTER(c_char), c_int64, c_void_p)


class TensorInfo(Structure):
    """``kael_tensor_info``."""

    _fields_ = [
        ("struct_size", c_int64),
        ("dtype", c_int32),
        ("rank", c_int32),
        ("shape", c_int64 * MAX_RANK),
        ("strides", c_int64 * MAX_RANK),
        ("offset", c_int64),
        ("element_count", c_int64),
        ("byte_count", c_int64),
        ("data", c_void_p),
        ("is_contiguous", c_uint8),
        ("is_read_only", c_uint8),
    ]


class Argument(Structure):
    """``kael_argument``."""

    _fields_ = [
        ("kind", c_int32),
        ("count", c_int64),
        ("tensor", POINTER(TensorHandle)),
        ("tensors", POINTER(POINTER(TensorHandle))),
        ("integers", POINTER(c_int64)),
        ("integer", c_int64),
        ("real", c_double),
    ]


RETAIN_GRAPH = 1
CREATE_GRAPH = 2
ALLOW_UNUSED = 4

FIND_NAN = 1
FIND_INFINITY = 2
CHECK_FORWARD = 4


class GptConfig(Structure):
    """``kael_gpt_config``."""

    _fields_ = [
        ("struct_size", c_int64),
        ("vocab_size", c_int64),
        ("max_positions", c_int64),
        ("layers", c_int64),
        ("heads", c_int64),
        ("dimension", c_int64),
        ("inner_dimension", c_int64),
        ("layer_norm_epsilon", c_double),
        ("activation", c_int32),
        ("scale_attention", c_uint8),
        ("scale_attention_by_inverse_layer", c_uint8),
        ("tie_word_embeddings", c_uint8),
    ]


class LogitBias(Structure):
    """``kael_logit_bias``."""

    _fields_ = [("token", c_int64), ("bias", c_double)]


class TokenLogprob(Structure):
    """``kael_token_logprob``."""

    _fields_ = [("token", c_int64), ("logprob", c_double)]


TokenLogprobPointer = POINTER(TokenLogprob)


class GenerateOptions(Structure):
    """``kael_generate_options``."""

    _fields_ = [
        ("struct_size", c_int64),
        ("max_tokens", c_int64),
        ("logit_biases", POINTER(LogitBias)),
        ("logit_bias_count", c_int64),
        ("repetition_penalty", c_double),
        ("presence_penalty", c_double),
        ("frequency_penalty", c_double),
        ("temperature", c_double),
        ("top_k", c_int64),
        ("top_p", c_double),
        ("min_p", c_double),
        ("seed", c_uint64),
        ("stop_tokens", POINTER(c_int64)),
        ("stop_token_count", c_int64),
        ("logprobs", TokenLogprobPointer),
        ("prompt_logprobs", TokenLogprobPointer),
        ("top_logprobs", c_int64),
        ("on_token", TokenCallback),
        ("should_stop", StopCallback),
        ("user_data", c_void_p),
        ("has_seed", c_uint8),
        ("use_cache", c_uint8),
        ("reuse_prefix", c_uint8),
        ("speculate", c_int64),
    ]


class GenerateResult(Structure):
    """``kael_generate_result``."""

    _fields_ = [
        ("struct_size", c_int64),
        ("count", c_int64),
        ("prompt_seconds", c_double),
        ("decode_seconds", c_double),
        ("seed", c_uint64),
        ("finish_reason", c_int32),
        ("cached_tokens", c_int64),
        ("guessed_tokens", c_int64),
    ]


class TokenRecord(Structure):
    """``kael_token_record``."""

    _fields_ = [("token", c_int64), ("nanoseconds", c_int64)]


class Lock(Enum):
    """What a call does with Python's interpreter lock (GIL)."""

    RELEASED = "released"  # for what computes, reads files, allocates much or may wait
    KEPT = "kept"  # for what ends at once: releasing would cost up to a switch interval beside a busy thread
    EITHER = "either"  # bound both ways; the caller knows how long its call will take


class Signature(NamedTuple):
    """One function of ``kael.h``."""

    result: Any
    arguments: tuple[Any, ...]
    lock: Lock


Int64Pointer = POINTER(c_int64)
TextPointer = POINTER(c_char)

_STATUS = c_int32
_tensor = POINTER(TensorHandle)
_node = POINTER(NodeHandle)
_recording = POINTER(MemoryRecordingHandle)
_map = POINTER(TensorMapHandle)
_tokenizer = POINTER(TokenizerHandle)
_gpt = POINTER(GptHandle)
_ring = POINTER(TokenRingHandle)


def _released(result: Any, *arguments: Any) -> Signature:
    return Signature(result, arguments, Lock.RELEASED)


def _kept(result: Any, *arguments: Any) -> Signature:
    return Signature(result, arguments, Lock.KEPT)


def _either(result: Any, *arguments: Any) -> Signature:
    return Signature(result, arguments, Lock.EITHER)


FUNCTIONS: dict[str, Signature] = {
    # Version and errors
    "kael_abi_version": _kept(c_int32),
    "kael_version": _kept(TextPointer),
    "kael_build_info": _kept(TextPointer),
    "kael_last_error": _kept(TextPointer, Int64Pointer),
    "kael_last_error_message": _kept(TextPointer, Int64Pointer),
    "kael_last_anomaly": _kept(TextPointer, Int64Pointer),
    # Process-wide settings
    "kael_set_num_threads": _released(_STATUS, c_int32),
    "kael_get_num_threads": _released(c_int32),
    "kael_set_float32_matmul_precision": _released(_STATUS, c_int32),
    "kael_get_float32_matmul_precision": _released(c_int32),
    "kael_manual_seed": _released(None, c_uint64),
    "kael_random_state": _released(_STATUS, POINTER(c_uint64), POINTER(c_uint64)),
    "kael_set_random_state": _released(None, c_uint64, c_uint64),
    "kael_caching_allocator_enabled": _kept(c_uint8),
    # Tensors
    "kael_tensor_from_bytes": _released(
        _STATUS, c_int32, Int64Pointer, c_int32, c_void_p, c_int64, POINTER(_tensor)
    ),
    "kael_tensor_from_memory": _kept(
        _STATUS,
        c_int32,
        Int64Pointer,
        Int64Pointer,
        c_int32,
        c_void_p,
        c_int64,
        c_uint8,
        ReleaseCallback,
        c_void_p,
        POINTER(_tensor),
    ),
    "kael_tensor_to_dlpack": _kept(_STATUS, _tensor, c_uint8, c_uint8, POINTER(c_void_p)),
    "kael_tensor_from_dlpack": _kept(_STATUS, c_void_p, c_uint8, POINTER(_tensor)),
    "kael_dlpack_set_capsule_functions": _kept(None, CapsuleIsValid, CapsulePointer),
    "kael_dlpack_end_capsule": _kept(None, c_void_p),
    "kael_tensor_describe": _kept(_STATUS, _tensor, POINTER(TensorInfo)),
    "kael_tensor_view": _kept(_STATUS, _tensor, Int64Pointer, c_int32, POINTER(_tensor)),
    "kael_tensor_free": _released(None, _tensor),
    # Operators
    "kael_apply": _either(
        _STATUS, c_char_p, c_int64, POINTER(Argument), c_int64, POINTER(_tensor), c_int64, Int64Pointer
    ),
    "kael_operator_count": _kept(None, Int64Pointer),
    "kael_operator_name": _kept(_STATUS, c_int64, POINTER(TextPointer), Int64Pointer),
    # Data sets
    "kael_idx_images": _released(_STATUS, c_void_p, c_int64, c_char_p, c_int64, POINTER(_tensor)),
    "kael_idx_labels": _released(_STATUS, c_void_p, c_int64, c_char_p, c_int64, POINTER(_tensor)),
    # Gradients
    "kael_set_grad_enabled": _kept(None, c_uint8),
    "kael_grad_enabled": _kept(c_uint8),
    "kael_tensor_gradient_state": _kept(_STATUS, _tensor, POINTER(c_uint8), POINTER(c_uint8)),
    "kael_tensor_set_requires_grad": _kept(_STATUS, _tensor, c_uint8),
    "kael_tensor_grad_fn": _kept(_STATUS, _tensor, POINTER(TextPointer), Int64Pointer),
    "kael_tensor_grad": _kept(_STATUS, _tensor, POINTER(_tensor)),
    "kael_tensor_set_grad": _kept(_STATUS, _tensor, _tensor),
    "kael_tensor_detach": _kept(_STATUS, _tensor, POINTER(_tensor)),
    "kael_tensor_share": _kept(_STATUS, _tensor, POINTER(_tensor)),
    "kael_tensor_add_hook": _kept(
        _STATUS, _tensor, GradientCallback, ReleaseCallback, c_void_p, Int64Pointer
    ),
    "kael_tensor_remove_hook": _kept(_STATUS, _tensor, c_int64),
    "kael_backward": _released(_STATUS, POINTER(_tensor), POINTER(_tensor), c_int64, c_int32),
    "kael_grad": _released(
        _STATUS,
        POINTER(_tensor),
        POINTER(_tensor),
        c_int64,
        POINTER(_tensor),
        c_int64,
        c_int32,
        POINTER(_tensor),
    ),
    "kael_tensor_node": _kept(_STATUS, _tensor, POINTER(_node)),
    "kael_node_free": _released(None, _node),
    "kael_node_name": _kept(_STATUS, _node, POINTER(TextPointer), Int64Pointer),
    "kael_node_identity": _kept(_STATUS, _node, Int64Pointer),
    "kael_node_next": _kept(_STATUS, _node, POINTER(_node), c_int64, Int64Pointer),
    "kael_node_add_hook": _kept(_STATUS, _node, NodeCallback, ReleaseCallback, c_void_p, Int64Pointer),
    "kael_node_add_prehook": _kept(_STATUS, _node, GradientCallback, ReleaseCallback, c_void_p, Int64Pointer),
    "kael_node_remove_hook": _kept(_STATUS, _node, c_int64),
    # Debugging
    "kael_explain": _kept(_STATUS, _tensor, POINTER(TextPointer), Int64Pointer),
    "kael_autograd_graph": _kept(_STATUS, _tensor, POINTER(TextPointer), Int64Pointer),
    "kael_autograd_graph_saved": _released(_STATUS, _tensor, POINTER(TextPointer), Int64Pointer),
    "kael_explain_json": _kept(_STATUS, _tensor, POINTER(TextPointer), Int64Pointer),
    "kael_autograd_graph_json": _released(_STATUS, _tensor, POINTER(TextPointer), Int64Pointer),
    "kael_set_backward_trace": _kept(_STATUS, TraceCallback, c_void_p),
    "kael_set_backward_records": _kept(_STATUS, TraceCallback, c_void_p),
    "kael_memory_recording_start": _kept(_STATUS, c_int64, POINTER(_recording)),
    "kael_memory_recording_stop": _kept(_STATUS, _recording),
    "kael_memory_recording_json": _released(_STATUS, _recording, POINTER(TextPointer), Int64Pointer),
    "kael_memory_recording_free": _released(None, _recording),
    "kael_set_anomaly_detection": _kept(_STATUS, c_int32),
    "kael_set_call_site": _kept(_STATUS, CallSiteCallback, c_void_p),
    # Named tensors and safetensors files
    "kael_safetensors_load": _released(_STATUS, c_char_p, c_int64, c_int32, POINTER(_map)),
    "kael_safetensors_save": _released(_STATUS, _map, c_char_p, c_int64),
    "kael_tensor_map_create": _kept(_STATUS, POINTER(_map)),
    "kael_tensor_map_add": _kept(_STATUS, _map, c_char_p, c_int64, _tensor),
    "kael_tensor_map_add_metadata": _kept(_STATUS, _map, c_char_p, c_int64, c_char_p, c_int64),
    "kael_tensor_map_size": _kept(_STATUS, _map, Int64Pointer),
    "kael_tensor_map_get": _kept(
        _STATUS, _map, c_int64, POINTER(TextPointer), Int64Pointer, POINTER(_tensor)
    ),
    "kael_tensor_map_metadata_size": _kept(_STATUS, _map, Int64Pointer),
    "kael_tensor_map_get_metadata": _kept(
        _STATUS, _map, c_int64, POINTER(TextPointer), Int64Pointer, POINTER(TextPointer), Int64Pointer
    ),
    "kael_tensor_map_free": _released(None, _map),
    # Byte-level BPE tokenizer
    "kael_tokenizer_load": _released(_STATUS, c_char_p, c_int64, c_char_p, c_int64, POINTER(_tokenizer)),
    "kael_tokenizer_vocabulary_size": _kept(_STATUS, _tokenizer, Int64Pointer),
    "kael_tokenizer_end_of_text": _kept(_STATUS, _tokenizer, Int64Pointer),
    "kael_tokenizer_encode": _released(
        _STATUS, _tokenizer, c_char_p, c_int64, c_uint8, Int64Pointer, c_int64, Int64Pointer
    ),
    "kael_tokenizer_decode": _either(
        _STATUS, _tokenizer, Int64Pointer, c_int64, TextPointer, c_int64, Int64Pointer
    ),
    "kael_tokenizer_free": _released(None, _tokenizer),
    # GPT-2
    "kael_gpt_config_default": _kept(None, POINTER(GptConfig)),
    "kael_gpt_create": _released(_STATUS, POINTER(GptConfig), POINTER(_gpt)),
    "kael_gpt_load": _released(_STATUS, c_char_p, c_int64, c_int32, POINTER(_gpt)),
    "kael_gpt_load_weights": _released(_STATUS, _gpt, c_char_p, c_int64),
    "kael_gpt_get_config": _kept(_STATUS, _gpt, POINTER(GptConfig)),
    "kael_gpt_parameter_count": _kept(_STATUS, _gpt, Int64Pointer),
    "kael_gpt_parameters": _kept(_STATUS, _gpt, POINTER(_map)),
    "kael_gpt_make_parameters_writable": _released(_STATUS, _gpt),
    "kael_gpt_set_dropout": _kept(_STATUS, _gpt, c_double),
    "kael_gpt_logits": _released(_STATUS, _gpt, Int64Pointer, c_int64, c_int64, POINTER(_tensor)),
    "kael_gpt_activations": _released(_STATUS, _gpt, Int64Pointer, c_int64, POINTER(_map)),
    "kael_generate_options_default": _kept(None, POINTER(GenerateOptions)),
    "kael_gpt_generate": _released(
        _STATUS,
        _gpt,
        Int64Pointer,
        c_int64,
        POINTER(GenerateOptions),
        Int64Pointer,
        POINTER(GenerateResult),
    ),
    "kael_gpt_free": _released(None, _gpt),
    "kael_sample_next": _released(
        _STATUS,
        POINTER(c_float),
        c_int64,
        POINTER(GenerateOptions),
        Int64Pointer,
        c_int64,
        Int64Pointer,
        c_int64,
        c_double,
        Int64Pointer,
    ),
    # Token ring
    "kael_token_ring_create": _kept(_STATUS, c_int64, POINTER(_ring)),
    "kael_token_ring_descriptor": _kept(c_int32, _ring),
    "kael_token_ring_push": _kept(c_int32, c_void_p, c_int64),
    "kael_token_ring_stopping": _kept(c_uint8, c_void_p),
    "kael_token_ring_finish": _kept(None, _ring),
    "kael_token_ring_stop": _kept(None, _ring),
    "kael_token_ring_drain": _kept(
        _STATUS, _ring, POINTER(TokenRecord), c_int64, Int64Pointer, POINTER(c_uint8)
    ),
    "kael_token_ring_free": _kept(None, _ring),
    # The machine's limits
    "kael_measure_read_bandwidth": _released(_STATUS, c_int32, c_int32, POINTER(c_double)),
    "kael_measure_multiply_add": _released(_STATUS, c_int32, c_int32, c_int32, POINTER(c_double)),
}


def sized(structure: type[Structure]) -> Any:
    """A zeroed struct whose ``struct_size`` is set, as the functions that fill one expect."""
    value = structure()
    value.struct_size = ctypes.sizeof(structure)
    return value
