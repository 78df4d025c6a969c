"""Values of PyTorch as kael's, and the other way round."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch

import kael
from kael import _borrowing, _signatures

DTYPES = {
    getattr(torch, name): name
    for name in ("float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool")
}


class Unsupported(Exception):
    """What kael does not have, in words."""


def name_of(dtype: torch.dtype) -> str:
    if dtype not in DTYPES:
        raise Unsupported(f"{str(dtype).removeprefix('torch.')} is no dtype of kael's")
    return DTYPES[dtype]


def tensor_of_kael(tensor: torch.Tensor) -> kael.Tensor:
    """A tensor on the memory of PyTorch's, with its strides; a leaf that requires a gradient if that one
    does.
    """
    name = name_of(tensor.dtype)
    if tensor.ndim > _signatures.MAX_RANK:
        raise Unsupported(f"tensors of {tensor.ndim} dimensions")
    if tensor.layout != torch.strided or tensor.device.type != "cpu":
        raise Unsupported(f"tensors that are {tensor.layout} on {tensor.device.type}")
    values = tensor.detach().resolve_neg()
    stored = values.view(torch.uint16) if name == "bfloat16" else values
    made = _borrowing._borrow("opinfo", stored.numpy(), name)
    return made.requires_grad_() if tensor.requires_grad else made


def of_kael(value: Any) -> Any:
    """An argument of PyTorch's as one of kael's."""
    if isinstance(value, torch.Tensor):
        return tensor_of_kael(value)
    if isinstance(value, torch.dtype):
        return name_of(value)
    if isinstance(value, (list, tuple)):
        return (
            type(value)(map(of_kael, value)) if type(value) in (list, tuple) else tuple(map(of_kael, value))
        )
    if value is None or value is Ellipsis or isinstance(value, (bool, int, float, str, slice, np.generic)):
        return value
    raise Unsupported(f"arguments of type {type(value).__name__}")


def torch_of(tensor: kael.Tensor) -> torch.Tensor:
    """A copy."""
    values = tensor.detach()
    if tensor.dtype == "bfloat16":
        return torch.from_numpy(np.array(values.float().numpy())).bfloat16()
    return torch.from_numpy(np.array(values.numpy()))


def mapped(function: Callable[[torch.Tensor], Any], value: Any) -> Any:
    """``value`` with every tensor in its lists replaced."""
    if isinstance(value, torch.Tensor):
        return function(value)
    if isinstance(value, (list, tuple)):
        return type(value)([mapped(function, item) for item in value])
    if isinstance(value, dict):
        return {name: mapped(function, item) for name, item in value.items()}
    return value


def widened(value: Any) -> Any:
    """An argument with float64 in place of the other floating-point dtypes. Its tensors are leaves, which
    require a gradient where those did.
    """
    if isinstance(value, torch.dtype):
        return torch.float64 if value.is_floating_point else value
    return mapped(_widened_leaf, value)


def _widened_leaf(tensor: torch.Tensor) -> torch.Tensor:
    wide = tensor.detach().double() if tensor.is_floating_point() else tensor.detach()
    return wide.requires_grad_(tensor.requires_grad)


def tensors_in(value: Any, kind: type) -> Iterator[Any]:
    """The tensors of one library in an argument or result, in order."""
    if isinstance(value, kind):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item, kind)
    elif isinstance(value, dict):
        yield from tensors_in(list(value.values()), kind)


def described(value: Any) -> str:
    """An argument in a few words: a tensor by its dtype and shape."""
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(described, value))}]"
    return repr(value)


# Two ways to round the same sum are that much better or worse by chance.
_TIMES_AS_FAR = 4


def difference(actual: Any, expected: Any, exact: Any = None) -> str | None:
    """How a result of kael's differs from PyTorch's, or None. Values may differ as those of two machines may
    for PyTorch (``torch.testing.assert_close``); where ``exact`` is given, which is the same computed in
    float64, they may also be some times as far from that as PyTorch's farthest.
    """
    if isinstance(expected, torch.Tensor) and isinstance(actual, kael.Tensor):
        dtype = str(expected.dtype).removeprefix("torch.")
        if actual.dtype != dtype:
            return f"dtype {actual.dtype}, PyTorch's is {dtype}"
        if actual.shape != tuple(expected.shape):
            return f"shape {list(actual.shape)}, PyTorch's is {list(expected.shape)}"
        return _difference_of_values(torch_of(actual), expected.detach(), exact)
    if isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple)):
        if len(actual) != len(expected):
            return f"{len(actual)} results, PyTorch has {len(expected)}"
        triples = zip(actual, expected, exact or [None] * len(expected), strict=True)
        return next((text for text in (difference(*triple) for triple in triples) if text), None)
    if type(actual) is not type(expected):
        return f"a {type(actual).__name__}, PyTorch's is a {type(expected).__name__}"
    if actual == expected or (actual != actual and expected != expected):
        return None
    return f"{actual!r}, PyTorch's is {expected!r}"


def _difference_of_values(actual: torch.Tensor, expected: torch.Tensor, exact: Any) -> str | None:
    if torch.equal(actual, expected):
        return None
    relative, absolute = torch.testing._comparison.default_tolerances(actual, expected)
    ours, theirs = actual.double(), expected.double()
    target = theirs
    allowed = 0.0
    if isinstance(exact, torch.Tensor) and exact.shape == expected.shape and expected.is_floating_point():
        target = exact.detach().to(expected.dtype).double()
        allowed = _TIMES_AS_FAR * _distance(theirs, target).max().item() if target.numel() else 0.0
    limit = absolute + allowed + relative * target.abs().nan_to_num(0, 0, 0)
    excess = _distance(ours, target) - limit
    if not torch.any(excess > 0):
        return None
    worst = int(excess.flatten().argmax())
    return f"values {actual.flatten()[worst].item()!r}, PyTorch's are {expected.flatten()[worst].item()!r}"


def _distance(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """None between equal infinities, and between NaNs."""
    equal = (a == b) | (a.isnan() & b.isnan())
    return (a - b).abs().nan_to_num(torch.inf, torch.inf).masked_fill(equal, 0)


def same_bits(a: Any, b: Any) -> bool:
    """Whether two results of kael's are equal to the bit; NaN equals NaN."""
    if isinstance(a, kael.Tensor):
        return torch.equal(_bits(torch_of(a)), _bits(torch_of(b)))
    if isinstance(a, (list, tuple)):
        return all(map(same_bits, a, b))
    return a == b or (a != a and b != b)


def _bits(tensor: torch.Tensor) -> torch.Tensor:
    size = tensor.element_size()
    if not tensor.is_floating_point():
        return tensor
    known = torch.where(tensor.isnan(), torch.nan, tensor)
    return known.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[size])


# ---- Layouts: tensors of PyTorch's with other strides ----------------------


def transposed(tensor: torch.Tensor) -> torch.Tensor:
    """The same values in column-major order."""
    backwards = list(reversed(range(tensor.ndim)))
    return tensor.permute(backwards).contiguous().permute(backwards)


def sliced(tensor: torch.Tensor) -> torch.Tensor:
    """The same values as every second element of a larger tensor."""
    if tensor.ndim == 0:
        return torch.stack([tensor, tensor])[1]
    return tensor.repeat_interleave(2, -1)[..., 1::2]


def expanded(tensor: torch.Tensor) -> torch.Tensor:
    """The first row, repeated with a stride of 0."""
    return tensor[:1].expand(tensor.shape) if tensor.ndim and tensor.shape[0] else tensor


LAYOUTS = {"transposed": transposed, "sliced": sliced, "expanded": expanded}
