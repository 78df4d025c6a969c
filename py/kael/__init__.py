"""kael: runs GPT-2, on a C++20 library that this package loads with ctypes.

    >>> import kael
    >>> model = kael.GPT.from_pretrained(kael.default_model_path())
    >>> folder = kael.default_model_path()
    >>> tokenizer = kael.BpeTokenizer.from_pretrained(folder)
    >>> ids = model.generate(tokenizer.encode("Once upon a time"), 20, temperature=0)
    >>> text = tokenizer.decode(ids).decode("utf-8", "replace")

Errors: a value of the wrong type is a ``TypeError``, all else that fails is a :class:`kael.Error`. Threads:
two threads may use two objects at the same time, always; what one object allows stands in its class. The
library is loaded at first use, from ``KAEL_LIBRARY``, the installed package or the checkout's ``build/cpu``.
"""

from kael import _early  # noqa: F401, I001  # before NumPy is imported
from kael import _functions
from kael._autograd import enable_grad, grad, is_grad_enabled, no_grad, set_grad_enabled
from kael._checkpoint import load_checkpoint, save_checkpoint
from kael._debug import autograd_graph, explain, set_anomaly_detection, set_backward_trace
from kael._drawing import draw_graph
from kael._borrowing import from_numpy, frombuffer
from kael._dlpack import from_dlpack
from kael._errors import AnomalyError, Error, ErrorCode
from kael._generation import FinishReason, Generation
from kael._functions import *  # noqa: F403
from kael._gradcheck import gradcheck
from kael._gpt import GPT, GPTConfig, sample_next
from kael._logprobs import Logprobs, TokenLogprob
from kael._models import default_model_path, package_version
from kael._memory import MemoryTimeline, record_memory
from kael._nodes import Node
from kael._ring import TokenRing
from kael._safetensors import SafeTensors, load_safetensors, save_safetensors
from kael._settings import (
    build_info,
    caching_allocator_enabled,
    get_float32_matmul_precision,
    get_num_threads,
    manual_seed,
    random_state,
    set_float32_matmul_precision,
    set_num_threads,
    set_random_state,
)
from kael._tensor import Tensor, tensor
from kael._text_stream import TextStream
from kael._tokenizer import BpeTokenizer

__version__ = package_version()
del package_version

from kael import array_api, data, nn, optim, training  # noqa: E402, F401  # which use the functions

__all__ = [
    "GPT",
    "AnomalyError",
    "BpeTokenizer",
    "Error",
    "ErrorCode",
    "FinishReason",
    "GPTConfig",
    "Generation",
    "Logprobs",
    "MemoryTimeline",
    "Node",
    "SafeTensors",
    "Tensor",
    "TextStream",
    "TokenLogprob",
    "TokenRing",
    "autograd_graph",
    "build_info",
    "caching_allocator_enabled",
    "default_model_path",
    "draw_graph",
    "enable_grad",
    "explain",
    "from_dlpack",
    "from_numpy",
    "frombuffer",
    "get_float32_matmul_precision",
    "get_num_threads",
    "grad",
    "gradcheck",
    "is_grad_enabled",
    "load_checkpoint",
    "load_safetensors",
    "manual_seed",
    "no_grad",
    "random_state",
    "record_memory",
    "sample_next",
    "save_checkpoint",
    "save_safetensors",
    "set_anomaly_detection",
    "set_backward_trace",
    "set_float32_matmul_precision",
    "set_grad_enabled",
    "set_num_threads",
    "set_random_state",
    "tensor",
]
__all__ += _functions.__all__
__all__.sort(key=lambda name: (not name.isupper(), not name[0].isupper(), name))
