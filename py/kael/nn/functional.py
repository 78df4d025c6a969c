"""What layers compute, as functions without parameters of their own. Names are PyTorch's."""

from __future__ import annotations

import math
from typing import Any

import kael
from kael import _checks
from kael._errors import Error
from kael._layers import cross_entropy, embedding, layer_norm, mse_loss
from kael._tensor import Tensor

__all__ = [
    "cross_entropy",
    "dropout",
    "embedding",
    "gelu",
    "layer_norm",
    "linear",
    "log_softmax",
    "mse_loss",
    "nll_loss",
    "pad",
    "relu",
    "scaled_dot_product_attention",
    "sigmoid",
    "softmax",
    "tanh",
]

gelu = kael.gelu
log_softmax = kael.log_softmax
pad = kael.pad
relu = kael.relu
sigmoid = kael.sigmoid
softmax = kael.softmax
tanh = kael.tanh


def linear(x: Any, weight: Any, bias: Any = None) -> Tensor:
    """``x`` [..., in] times the transpose of ``weight`` [out, in], plus ``bias`` [out]."""
    product = x @ weight.T
    return product if bias is None else product + bias


def dropout(x: Any, p: float = 0.5, training: bool = True) -> Tensor:
    """Each element becomes 0 with probability ``p``, the others grow by 1 / (1 - p); outside training the
    tensor itself. Draws from the stream of :func:`kael.manual_seed`.
    """
    share = float(_checks.number("dropout: p", p))
    if not 0.0 <= share <= 1.0:
        raise Error(f"dropout: p is {p}, expected 0 to 1")
    if not _checks.flag("dropout: training", training) or share == 0.0:
        return x
    if share == 1.0:
        return x * 0.0
    kept = kael.rand(*x.shape, dtype="float32") >= share
    return kael.where(kept, x * (1.0 / (1.0 - share)), 0.0)


def nll_loss(log_probabilities: Any, targets: Any, ignore_index: int = -100) -> Tensor:
    """The mean of minus the log probabilities [N, C] of the targets, int64 [N]. A target of ``ignore_index``
    is left out.
    """
    counts = targets != ignore_index
    picked = log_probabilities.gather(1, kael.where(counts, targets, 0).unsqueeze(1)).squeeze(1)
    total = kael.where(counts, picked, 0.0).sum()
    return -total / counts.sum().to(log_probabilities.dtype)


def scaled_dot_product_attention(query: Any, key: Any, value: Any, is_causal: bool = False) -> Tensor:
    """softmax(query key^T / sqrt(E)) value, for query [..., T, E], key [..., S, E] and value [..., S, V].
    When causal, a position sees none after it.
    """
    scores = query @ key.transpose(-2, -1) * (1.0 / math.sqrt(query.shape[-1]))
    if _checks.flag("is_causal", is_causal):
        rows = kael.arange(query.shape[-2]).unsqueeze(1)
        columns = kael.arange(key.shape[-2]).unsqueeze(0)
        scores = scores.masked_fill(rows < columns, -math.inf)
    return softmax(scores, -1) @ value
