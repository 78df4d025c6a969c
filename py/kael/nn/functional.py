"""What layers compute, as functions without parameters of their own. Names are PyTorch's."""

from __future__ import annotations

import math
from typing import Any

import kael
from kael import _checks
from kael._errors import Error
from kael._layers import causal_attention, cross_entropy, embedding, layer_norm, mse_loss, nll_loss
from kael._tensor import Tensor

__all__ = [
    "causal_attention",
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


def scaled_dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
) -> Tensor:
    """softmax(query key^T * scale) value, for query [..., T, E], key [..., S, E] and value [..., S, V];
    ``scale`` is 1 / sqrt(E) when none is given.

    ``attn_mask`` broadcasts to [..., T, S]: bools are true where a position may look, numbers are added to
    what softmax is taken of. With ``is_causal`` a position sees none after it; both together are an error. A
    position that sees none is NaN. ``dropout_p`` is that of :func:`dropout` for the shares.
    """
    if query.dtype in ("float16", "bfloat16"):  # computed as float32 and rounded once
        wide = query.float(), key.float(), value.float()
        mask = attn_mask if attn_mask is None or attn_mask.dtype == "bool" else attn_mask.float()
        return scaled_dot_product_attention(*wide, mask, dropout_p, is_causal, scale).to(query.dtype)
    factor = 1.0 / math.sqrt(query.shape[-1]) if scale is None else _checks.number("scale", scale)
    scores = query @ key.transpose(-2, -1) * factor
    if _checks.flag("is_causal", is_causal):
        if attn_mask is not None:
            raise Error("scaled_dot_product_attention: attn_mask and is_causal, expected one of them")
        rows = kael.arange(query.shape[-2]).unsqueeze(1)
        columns = kael.arange(key.shape[-2]).unsqueeze(0)
        attn_mask = rows >= columns
    if attn_mask is not None and attn_mask.dtype == "bool":
        scores = scores.masked_fill(~attn_mask, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return dropout(softmax(scores, -1), dropout_p) @ value
