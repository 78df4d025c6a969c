"""What layers and losses of networks need: functions of the package."""

from __future__ import annotations

from kael import _checks
from kael._apply import apply
from kael._operators import FUNCTIONS
from kael._tensor import Tensor


def embedding(ids: Tensor, table: Tensor) -> Tensor:
    """The rows of ``table`` [N, D] that ``ids``, int64, name: [..., D]."""
    return apply("embedding", ids, table)


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """``x`` less its mean along the last dimension, by the root of its variance there plus ``eps``, times
    ``weight`` plus ``bias``.
    """
    return apply("layer_norm", x, weight, bias, float(_checks.number("layer_norm: eps", eps)))


def cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    """The mean of -log(softmax(logits)) at the targets: logits [N, C], targets int64 [N]. A target of
    ``ignore_index`` is left out of the mean, which is NaN when all are.
    """
    ignored = _checks.integer(
        "cross_entropy: ignore_index", ignore_index, -_checks.INT64_MAX, _checks.INT64_MAX
    )
    return apply("cross_entropy", logits, targets, ignored)


def mse_loss(x: Tensor, target: Tensor) -> Tensor:
    """The mean of the squares of the differences of two tensors of one shape."""
    return apply("mse_loss", x, target)


for _function in (embedding, layer_norm, cross_entropy, mse_loss):
    _function.__module__ = "kael"
    FUNCTIONS[_function.__name__] = _function
