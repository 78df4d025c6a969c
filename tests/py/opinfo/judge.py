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
        keywords = {name: values.widened(value) for name, value in self.keywords.items()}
        try:
            return function(*map(values.widened, self.theirs), **keywords)
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


def _compared(info: OpInfo, call: _Call, function: Callable[..., Any]) -> str | None:
    ours, theirs, wrong = _answers(call, function)
    if operators.is_random(info) and isinstance(ours, kael.Tensor):
        theirs = values.torch_of(ours).to(theirs.dtype).reshape(theirs.shape)
    wrong = wrong or values.difference(ours, theirs)
    return wrong and values.difference(ours, theirs, call.in_float64(function)) if ours is not None else wrong


def _forward(info: OpInfo, sample: SampleInput) -> str | None:
    return _compared(info, _Call(_function(info), sample), operators.pytorchs(info))


def _in_layout(
    info: OpInfo, sample: SampleInput, layout: Callable[[torch.Tensor], torch.Tensor], same: bool
) -> str | None:
    """The answer to tensors with other strides: PyTorch's, and where their values are the ``same`` to the bit
    that to contiguous ones.
    """
    other = _changed(sample, lambda tensor: layout(tensor) if tensor.layout == torch.strided else tensor)
    call = _Call(_function(info), other)
    wrong = _compared(info, call, operators.pytorchs(info))
    if wrong or not same or operators.is_random(info):
        return wrong
    try:
        different = not values.same_bits(call.of_kael(), _Call(_function(info), sample).of_kael())
    except REFUSALS:
        return None  # both libraries refuse one of the two
    return "other bits than of contiguous tensors" if different else None


def _changed(sample: SampleInput, change: Callable[[torch.Tensor], torch.Tensor]) -> SampleInput:
    """The sample with other tensors, of which no gradients are asked."""

    def changed(value: Any) -> Any:
        return values.mapped(lambda tensor: change(tensor.detach()), value)

    return SampleInput(changed(sample.input), args=changed(tuple(sample.args)), kwargs=changed(sample.kwargs))


def _in_place(info: OpInfo, sample: SampleInput) -> str | None:
    function = operators.in_place(info)
    assert function is not None
    call = _Call(function, _changed(sample, torch.Tensor.clone))
    call.ours[0] = call.ours[0].clone()
    return _compared(info, call, info.inplace_variant)


def _gradient(info: OpInfo, sample: SampleInput) -> str | None:
    """The gradients of all results, weighted with random numbers."""
    call = _Call(_function(info), sample)
    ours, theirs, wrong = _answers(call, operators.pytorchs(info))
    if wrong or operators.is_random(info):
        return None  # judged by "forward"
    results = [
        pair
        for pair in zip(
            values.tensors_in(ours, kael.Tensor), values.tensors_in(theirs, torch.Tensor), strict=True
        )
        if pair[1].requires_grad
    ]
    their_inputs, our_inputs = call.inputs()
    if not results:
        return None
    generator = torch.Generator().manual_seed(0)
    weights = [torch.randn(pair[1].shape, generator=generator, dtype=pair[1].dtype) for pair in results]
    expected = torch.autograd.grad([pair[1] for pair in results], their_inputs, weights, allow_unused=True)
    if not all(pair[0].requires_grad for pair in results):
        return "is not recorded"
    try:
        actual = kael.grad(
            [pair[0] for pair in results],
            our_inputs,
            [values.tensor_of_kael(weight) for weight in weights],
            allow_unused=True,
        )
    except REFUSALS as error:
        return f"raises {type(error).__name__}: {getattr(error, 'message', error)}"
    for index, (a, e) in enumerate(zip(actual, expected, strict=True)):
        wrong = _difference_of_gradients(a, e)
        if wrong:
            return f"of tensor {index + 1}: {wrong}"
    return None


def _difference_of_gradients(actual: kael.Tensor | None, expected: torch.Tensor | None) -> str | None:
    """None and zeros are the same gradient."""
    if actual is None and expected is None:
        return None
    if actual is None:
        return None if not expected.any() else "none, PyTorch has one"
    if expected is None:
        return None if not actual.any().item() else "one, PyTorch has none"
    return values.difference(actual, expected)


def _refusals(info: OpInfo) -> Iterator[Outcome]:
    _seed()
    for error in info.error_inputs_func(info, "cpu"):
        sample = error.sample_input
        first = next(values.tensors_in(_all(sample), torch.Tensor), None)
        dtype = "-" if first is None else str(first.dtype).removeprefix("torch.")
        yield _outcome(info, dtype, "refusal", sample, lambda sample=sample: _forward(info, sample))
