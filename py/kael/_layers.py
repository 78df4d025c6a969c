"""What layers and losses of networks need: functions of the package."""

from __future__ import annotations

import math
from typing import Any

from kael import _checks
from kael._apply import apply
from kael._operators import FUNCTIONS, integers
from kael._tensor import Tensor


def embedding(ids: Tensor, table: Tensor) -> Tensor:
    """The rows of ``table`` [N, D] that ``ids``, int64, name: [..., D]."""
    return apply("embedding", ids, table)


def layer_norm(
    x: Tensor,
    normalized_shape: int | list[int] | tuple[int, ...],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """``x`` less its mean over the last dimensions, whose sizes are ``normalized_shape``, by the root of its
    variance there plus ``eps``, times ``weight`` plus ``bias``, both of that shape.
    """
    sizes = integers("layer_norm", (normalized_shape,))
    return apply("layer_norm", x, sizes, weight, bias, float(_checks.number("layer_norm: eps", eps)))


def causal_attention(qkv: Tensor, heads: int, scale: float | None = None) -> Tensor:
    """GPT-2's attention, in which a position sees itself and those before it: ``qkv`` [B, T, 3 * heads * S]
    holds queries, then keys, then values; the result, [B, T, heads * S], is softmax(scale * query . key) .
    value of each head. ``scale`` is 1 / sqrt(S) when none is given.

    float32 is computed without holding the scores of all pairs of positions.
    """
    count = _checks.integer("causal_attention: heads", heads, 1, _checks.INT64_MAX)
    if scale is None:
        size = qkv.shape[-1] // (3 * count) if qkv.shape else 0
        scale = 1.0 / math.sqrt(max(size, 1))
    return apply("causal_attention", qkv, count, float(_checks.number("causal_attention: scale", scale)))


# In the order of the library's numbers.
_REDUCTIONS = ("none", "mean", "sum")


def _reduction(name: str, reduction: Any) -> int:
    return _REDUCTIONS.index(_checks.choice(f"{name}: reduction", reduction, _REDUCTIONS))


def _ignored(name: str, ignore_index: Any) -> int:
    return _checks.integer(f"{name}: ignore_index", ignore_index, -_checks.INT64_MAX, _checks.INT64_MAX)


def cross_entropy(
    logits: Tensor,
    targets: Tensor,
    ignore_index: int = -100,
    *,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """-log(softmax(logits)) at the targets: logits [N, C, ...] or [C], targets int64 [N, ...] or []. A target
    of ``ignore_index`` has no loss. ``weight`` [C] multiplies the losses of each class.

    ``reduction`` "mean" is their sum over the weights of the targets that are not ignored, without weights
    their number: NaN when all are. "sum" is their sum, "none" all of them. Targets of the dtype and shape of
    the logits are probabilities of the classes, and the mean is that over [N, ...].
    """
    numbers = _ignored("cross_entropy", ignore_index), weight, _reduction("cross_entropy", reduction)
    return apply("cross_entropy", logits, targets, *numbers)


def nll_loss(
    log_probabilities: Tensor,
    targets: Tensor,
    ignore_index: int = -100,
    *,
    weight: Tensor | None = None,
    reduction: str = "mean",
) -> Tensor:
    """Minus the log probabilities [N, C, ...] or [C] of the targets, as :func:`cross_entropy`, which takes
    their softmax first.
    """
    numbers = _ignored("nll_loss", ignore_index), weight, _reduction("nll_loss", reduction)
    return apply("nll_loss", log_probabilities, targets, *numbers)


def mse_loss(x: Tensor, target: Tensor, reduction: str = "mean") -> Tensor:
    """The squares of the differences of two tensors of one shape: their mean, "sum", or with "none" all of
    them.
    """
    return apply("mse_loss", x, target, _reduction("mse_loss", reduction))


for _function in (embedding, layer_norm, causal_attention, cross_entropy, nll_loss, mse_loss):
    _function.__module__ = "kael"
    FUNCTIONS[_function.__name__] = _function
