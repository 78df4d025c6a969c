"""Which of PyTorch's operators kael has, and how they are called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

import kael
from opinfo.values import Unsupported


def _dtype(first: Any, *others: Any) -> str:
    """What ``x.to(first, ...)`` asks for: a dtype, alone or after a device, or that of another tensor."""
    return first.dtype if isinstance(first, kael.Tensor) else others[0] if first == "cpu" else first


# How a caller of kael's writes what OpInfo passes in another order, or in other words.
_WRITTEN: dict[str, Callable[..., Any]] = {
    "T": lambda x: x.T,
    "einsum": lambda tensors, equation: kael.einsum(equation, *tensors),
    "index_add": lambda x, dim, index, source, alpha=1: kael.index_add(x, dim, index, source * alpha),
    "nn.functional.embedding": lambda table, ids: kael.nn.functional.embedding(ids, table),
    "to": lambda x, *where: x.to(_dtype(*where)),
    "topk": lambda x, k, dim=-1, largest=True, sorted=True: kael.topk(x, k, dim, largest),
    "where": lambda x, condition, y: kael.where(condition, x, y),
    "zero_": lambda x: x.clone().zero_(),
}


def _topk(x: torch.Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:
    torch.topk(x, k, dim, largest, sorted)  # which may refuse
    ordered = torch.sort(x, dim=dim, descending=largest, stable=True)
    return tuple(part.narrow(dim, 0, k) if x.ndim else part for part in ordered)


# Where PyTorch may answer with any of several results: which of them is kael's.
_CHOSEN: dict[str, Callable[..., Any]] = {
    "argsort": lambda x, dim=-1, descending=False, stable=True: torch.argsort(
        x, dim=dim, descending=descending, stable=True
    ),
    "sort": lambda x, dim=-1, descending=False, stable=True: torch.sort(
        x, dim=dim, descending=descending, stable=True
    ),
    "topk": _topk,
}

# Their values are random: only dtype and shape can be compared.
_RANDOM = ("rand", "randn", "nn.functional.dropout")

# What an argument of PyTorch's may be when kael, without that argument, does the same.
_WITHOUT_MEANING: dict[str, tuple[Any, ...]] = {
    "device": ("cpu", torch.device("cpu"), None),
    "layout": (torch.strided, None),
    "correction": (None,),
    "memory_format": (torch.preserve_format, torch.contiguous_format),
    "stable": (False, True),
    "requires_grad": (False,),
    "pin_memory": (False, None),
}


def kaels(name: str) -> Callable[..., Any] | None:
    """The function of kael's that is OpInfo's ``name``: of the package, of ``nn.functional`` or a method."""
    if name in _WRITTEN:
        return _WRITTEN[name]
    if name.startswith("nn.functional."):
        name = name.removeprefix("nn.functional.")
        if name in kael.nn.functional.__all__:
            return getattr(kael.nn.functional, name)
    if name in kael.__all__ and inspect.isfunction(getattr(kael, name)):
        return getattr(kael, name)
    method = getattr(kael.Tensor, name, None)
    return method if inspect.isfunction(method) and method.__module__.startswith("kael") else None


def pytorchs(info: OpInfo) -> Callable[..., Any]:
    return _CHOSEN.get(info.name, info.op)


def in_place(info: OpInfo) -> Callable[..., Any] | None:
    method = getattr(kael.Tensor, f"{info.name}_", None)
    return method if info.inplace_variant is not None and info.name.isidentifier() else None


def shared() -> Iterator[OpInfo]:
    """What OpInfo knows of the operators that kael has, by name."""
    return (info for info in sorted(op_db, key=full_name) if kaels(info.name))


def full_name(info: OpInfo) -> str:
    return f"{info.name} {info.variant_test_name}".strip()


def is_random(info: OpInfo, sample: SampleInput) -> bool:
    return info.name in _RANDOM or sample.kwargs.get("dropout_p", 0) > 0


def meaningful(keywords: dict[str, Any]) -> dict[str, Any]:
    """The keyword arguments without those that ask for what kael does anyway."""
    return {
        name: value
        for name, value in keywords.items()
        if name not in _WITHOUT_MEANING or value not in _WITHOUT_MEANING[name]
    }


def check_arguments(function: Callable[..., Any], arguments: Any, keywords: dict[str, Any]) -> None:
    """Raises Unsupported when kael's function has no such arguments."""
    signature = inspect.signature(function)
    unknown = [name for name in keywords if name not in signature.parameters]
    if unknown:
        raise Unsupported(f"no argument {', '.join(sorted(unknown))}")
    try:
        signature.bind(*arguments, **keywords)
    except TypeError as error:
        raise Unsupported(str(error)) from None
