"""Gives both libraries the samples of an operator and compares what they answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch.testing._internal.opinfo.core import OpInfo, SampleInput

import kael
from opinfo import operators, values
from opinfo.outcomes import FAILED, PASSED, SKIPPED, Outcome
from opinfo.values import Unsupported

# What kael may raise for arguments that it refuses.
REFUSALS = (kael.Error, TypeError, ValueError)
_PYTORCHS_REFUSALS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError)


def judge(info: OpInfo, dtypes: Iterable[str], layouts: bool = True) -> Iterator[Outcome]:
    """Every check of an operator, in these dtypes. The samples are the same every time."""
    for dtype, name in values.DTYPES.items():
        if name in dtypes and dtype in info.dtypes:
            yield from _of_dtype(info, dtype, name, layouts)
    if info.error_inputs_func is not None:
        yield from _refusals(info)


def _seed() -> None:
    torch.manual_seed(0)
    np.random.seed(0)  # the generator that OpInfo draws from
    random.seed(0)


def _of_dtype(info: OpInfo, dtype: torch.dtype, name: str, layouts: bool) -> Iterator[Outcome]:
    _seed()
    gradients = info.supports_autograd and name in ("float32", "float64")
    # As info.sample_inputs, which first reads the source of every caller, for each sample.
    for sample in info.sample_inputs_func(info, "cpu", dtype, gradients):
        for check, call in _checks(info, sample, gradients, layouts):
            yield _outcome(info, name, check, sample, call)


def _outcome(
    info: OpInfo, dtype: str, check: str, sample: SampleInput, call: Callable[[], str | None]
) -> Outcome:
    try:
        wrong = call()
        status, text = (FAILED, wrong) if wrong else (PASSED, "")
    except Unsupported as reason:
        status, text = SKIPPED, str(reason)
    arguments = [values.described(value) for value in (sample.input, *sample.args)]
    arguments += [f"{name}={values.described(value)}" for name, value in sample.kwargs.items()]
    return Outcome(operators.full_name(info), dtype, check, ", ".join(arguments), status, text)


def _checks(
    info: OpInfo, sample: SampleInput, gradients: bool, layouts: bool
) -> Iterator[tuple[str, Callable[[], str | None]]]:
    yield "forward", lambda: _forward(info, sample)
    if gradients and any(tensor.requires_grad for tensor in values.tensors_in(_all(sample), torch.Tensor)):
        yield "gradient", lambda: _gradient(info, sample)
    if operators.in_place(info) is not None:
        yield "in place", lambda: _in_place(info, sample)
    if layouts and any(tensor.ndim for tensor in values.tensors_in(_all(sample), torch.Tensor)):
        for name, layout in values.LAYOUTS.items():
            yield name, lambda name=name, layout=layout: _in_layout(info, sample, layout, name != "expanded")


def _all(sample: SampleInput) -> list[Any]:
    return [sample.input, *sample.args, sample.kwargs]


class _Call:
    """One sample, as arguments for both libraries."""

    def __init__(self, function: Callable[..., Any], sample: SampleInput) -> None:
        self.sample = sample
        self.theirs = sample.input, *sample.args
        self.keywords = sample.kwargs
        keywords = operators.meaningful(sample.kwargs)
        operators.check_arguments(function, self.theirs, keywords)
        self._function = function
        self.ours = [values.of_kael(value) for value in self.theirs]
        self._our_keywords = {name: values.of_kael(value) for name, value in keywords.items()}

    def inputs(self) -> tuple[list[torch.Tensor], list[kael.Tensor]]:
        """What gradients are asked for."""
        theirs = values.tensors_in([self.theirs, self.keywords], torch.Tensor)
        ours = values.tensors_in([self.ours, self._our_keywords], kael.Tensor)
        pairs = [pair for pair in zip(theirs, ours, strict=True) if pair[0].requires_grad]
        return [pair[0] for pair in pairs], [pair[1] for pair in pairs]

    def of_kael(self) -> Any:
        return self._function(*self.ours, **self._our_keywords)

    def of_torch(self, function: Callable[..., Any]) -> Any:
        return function(*self.theirs, **self.keywords)

    def in_float64(self, function: Callable[..., Any]) -> Any:
        """PyTorch's result of higher precision, or None where it has none."""
        try:
            return _Call(self._function, _changed(self.sample, values.widened)).of_torch(function)
        except _PYTORCHS_REFUSALS:
            return None


def _answers(call: _Call, function: Callable[..., Any]) -> tuple[Any, Any, str | None]:
    """Both results, or what is wrong where one library refuses."""
    theirs = ours = refused = None
    try:
        theirs = call.of_torch(function)
    except _PYTORCHS_REFUSALS as error:
        refused = error
    try:
        ours = call.of_kael()
    except REFUSALS as error:
        text = getattr(error, "message", str(error))
        return None, None, None if refused else f"raises {type(error).__name__}: {text}"
    if refused:
        return None, None, f"answers, PyTorch raises {type(refused).__name__}: {str(refused).splitlines()[0]}"
    return ours, theirs, None


def _function(info: OpInfo) -> Callable[..., Any]:
    function = operators.kaels(info.name)
    assert function is not None
    return function


def _compared(info: OpInfo, sample: SampleInput, call: _Call, function: Callable[..., Any]) -> str | None:
    ours, theirs, wrong = _answers(call, function)
    if operators.is_random(info, sample) and isinstance(ours, kael.Tensor):
        theirs = values.torch_of(ours).to(theirs.dtype).reshape(theirs.shape)
    wrong = wrong or values.difference(ours, theirs)
    return wrong and values.difference(ours, theirs, call.in_float64(function)) if ours is not None else wrong


def _forward(info: OpInfo, sample: SampleInput) -> str | None:
    return _compared(info, sample, _Call(_function(info), sample), operators.pytorchs(info))


def _in_layout(
    info: OpInfo, sample: SampleInput, layout: Callable[[torch.Tensor], torch.Tensor], same: bool
) -> str | None:
    """The answer to tensors with other strides: PyTorch's, and where their values are the ``same`` to the bit
    that to contiguous ones.
    """

    def arranged(tensor: torch.Tensor) -> torch.Tensor:
        return layout(tensor.detach()) if tensor.layout == torch.strided else tensor

    other = _changed(sample, lambda value: values.mapped(arranged, value))
    call = _Call(_function(info), other)
    wrong = _compared(info, other, call, operators.pytorchs(info))
    if wrong or not same or operators.is_random(info, sample):
        return wrong
    try:
        different = not values.same_bits(call.of_kael(), _Call(_function(info), sample).of_kael())
    except REFUSALS:
        return None  # both libraries refuse one of the two
    return "other bits than of contiguous tensors" if different else None


def _changed(sample: SampleInput, change: Callable[[Any], Any]) -> SampleInput:
    """The sample with other arguments."""
    keywords = {name: change(value) for name, value in sample.kwargs.items()}
    return SampleInput(change(sample.input), args=tuple(map(change, sample.args)), kwargs=keywords)


def _in_place(info: OpInfo, sample: SampleInput) -> str | None:
    function = operators.in_place(info)
    assert function is not None
    copied = _changed(sample, lambda value: values.mapped(lambda tensor: tensor.detach().clone(), value))
    call = _Call(function, copied)
    call.ours[0] = call.ours[0].clone()
    return _compared(info, sample, call, info.inplace_variant)


def _gradient(info: OpInfo, sample: SampleInput) -> str | None:
    """The gradients of all results, weighted with random numbers."""
    call = _Call(_function(info), sample)
    ours, theirs, wrong = _answers(call, operators.pytorchs(info))
    if wrong or operators.is_random(info, sample):
        return None  # judged by "forward"
    expected = _pytorchs_gradients(theirs, call)
    if expected is None:
        return None
    results = [
        own
        for own, other in zip(
            values.tensors_in(ours, kael.Tensor), values.tensors_in(theirs, torch.Tensor), strict=True
        )
        if other.requires_grad
    ]
    if not all(result.requires_grad for result in results):
        return "is not recorded"
    weights = [values.tensor_of_kael(weight) for weight in _weights(theirs)]
    try:
        actual = kael.grad(results, call.inputs()[1], weights, allow_unused=True)
    except REFUSALS as error:
        return f"raises {type(error).__name__}: {getattr(error, 'message', error)}"
    if _differences_of_gradients(actual, expected, expected):
        wide = _Call(_function(info), _changed(sample, values.widened))
        exact = _pytorchs_gradients(wide.of_torch(operators.pytorchs(info)), wide)
        return _differences_of_gradients(actual, expected, exact)
    return None


def _weights(results: Any) -> list[torch.Tensor]:
    """Random gradients of the results, of those that have any."""
    generator = torch.Generator().manual_seed(0)
    return [
        torch.randn(result.shape, generator=generator, dtype=torch.float64).to(result.dtype)
        for result in values.tensors_in(results, torch.Tensor)
        if result.requires_grad
    ]


def _pytorchs_gradients(results: Any, call: _Call) -> Any:
    """For every input that asks for one; None where no result has any."""
    recorded = [result for result in values.tensors_in(results, torch.Tensor) if result.requires_grad]
    if not recorded:
        return None
    return torch.autograd.grad(recorded, call.inputs()[0], _weights(results), allow_unused=True)


def _differences_of_gradients(actual: Any, expected: Any, exact: Any) -> str | None:
    """None and zeros are the same gradient."""
    for index, (a, e, x) in enumerate(zip(actual, expected, exact, strict=True)):
        wrong = None
        if a is None:
            wrong = "none, PyTorch has one" if e is not None and e.any() else None
        elif e is None:
            wrong = "one, PyTorch has none" if a.any().item() else None
        else:
            wrong = values.difference(a, e, x)
        if wrong:
            return f"of tensor {index + 1}: {wrong}"
    return None


def _refusals(info: OpInfo) -> Iterator[Outcome]:
    _seed()
    for error in info.error_inputs_func(info, "cpu"):
        sample = error.sample_input
        first = next(values.tensors_in(_all(sample), torch.Tensor), None)
        dtype = "-" if first is None else str(first.dtype).removeprefix("torch.")
        yield _outcome(info, dtype, "refusal", sample, lambda sample=sample: _forward(info, sample))
