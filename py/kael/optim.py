"""Optimizers: ``kael.optim.AdamW(model.parameters(), lr=3e-4)``. Names and formulas are PyTorch's.

    optimizer = kael.optim.AdamW(model.train().requires_grad_().parameters(), lr=3e-4)
    for ids, targets in batches:
        optimizer.zero_grad()
        loss = kael.cross_entropy(model(ids), targets)
        loss.backward()
        kael.optim.clip_grad_norm_(optimizer.parameters(), 1.0)
        optimizer.step()

A step is one pass over memory in the library, the same bits for any number of threads. Parameters must be
contiguous float32 or float64 tensors in writable memory (:meth:`kael.GPT.train`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import kael
from kael import _checks
from kael._apply import apply, apply_in_place
from kael._errors import Error
from kael._tensor import Tensor

__all__ = ["SGD", "Adam", "AdamW", "CosineSchedule", "Optimizer", "clip_grad_norm_"]

Parameters = Iterable[Tensor] | Iterable[dict[str, Any]]


class Optimizer:
    """What all optimizers share. ``param_groups`` are dictionaries with ``"params"`` and the options of the
    group, which may be changed between steps (``group["lr"] = ...``). One thread at a time.
    """

    #: The options of a group, and what checks one of a name and a value and gives it back.
    _options: ClassVar[dict[str, Callable[[str, Any], Any]]] = {}
    #: The names of what is remembered for a parameter after its first step.
    _remembered: frozenset[str] = frozenset()

    def __init__(self, params: Parameters, defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):  # which would come apart into its rows
            raise TypeError(
                "params must be an iterable of tensors or of groups, not one kael.Tensor: [tensor]"
            )
        given: list[Any] = list(params)
        groups = given if given and isinstance(given[0], dict) else [{"params": given}]
        self.param_groups: list[dict[str, Any]] = []
        #: For each parameter, in the order of :meth:`parameters`, what the optimizer remembers.
        self.state: list[dict[str, Any]] = []
        seen: set[int] = set()
        for group in groups:
            options = self._checked({**defaults, **group})
            tensors = [_parameter(index, tensor) for index, tensor in enumerate(group["params"])]
            for tensor in tensors:
                if id(tensor) in seen:
                    raise Error("a parameter is given twice, expected each once")
                seen.add(id(tensor))
            self.param_groups.append({**options, "params": tensors})
            self.state.extend({} for _ in tensors)
        if not self.state:
            raise Error("no parameters are given, expected one or more")

    def __repr__(self) -> str:
        groups = "; ".join(
            f"{len(group['params'])} parameters with "
            + ", ".join(f"{name} {group[name]}" for name in self._options)
            for group in self.param_groups
        )
        return f"<{type(self).__module__}.{type(self).__qualname__} of {groups}>"

    def _checked(self, group: dict[str, Any]) -> dict[str, Any]:
        unknown, missing = (
            group.keys() - self._options.keys() - {"params"},
            self._options.keys() - group.keys(),
        )
        if unknown or missing:
            what = f"unknown options {sorted(unknown)}" if unknown else f"missing options {sorted(missing)}"
            raise Error(f"{what}, expected {sorted(self._options)}")
        return {name: check(name, group[name]) for name, check in self._options.items()}

    def parameters(self) -> list[Tensor]:
        """The parameters of all groups, in order."""
        return [tensor for group in self.param_groups for tensor in group["params"]]

    def zero_grad(self) -> None:
        """Clears the gradients: sets them to None."""
        for tensor in self.parameters():
            tensor.grad = None

    def step(self) -> None:
        """Changes every parameter that has a gradient."""
        states = iter(self.state)
        for group in self.param_groups:
            for tensor in group["params"]:
                state = next(states)
                gradient = tensor.grad
                if gradient is not None:
                    self._step(tensor, _contiguous(gradient), state, group)

    def _step(self, tensor: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        raise Error(f"{type(self).__name__} has no step of its own, expected its class to define one")

    def state_dict(self) -> dict[str, Any]:
        """What :meth:`load_state_dict` takes: options of the groups, and the state of each parameter by its
        number. Tensors are shared, not copied.
        """
        return {
            "param_groups": [
                {name: value for name, value in group.items() if name != "params"}
                for group in self.param_groups
            ],
            "state": [dict(state) for state in self.state],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where the optimizer of ``state`` was: as many groups, and parameters of the same shapes and
        dtypes. Nothing is changed when something does not fit.
        """
        groups, states = state["param_groups"], state["state"]
        if len(groups) != len(self.param_groups) or len(states) != len(self.state):
            raise Error(
                f"the state is of {len(groups)} groups and {len(states)} parameters, expected "
                f"{len(self.param_groups)} and {len(self.state)}"
            )
        for index, (tensor, remembered) in enumerate(zip(self.parameters(), states, strict=True)):
            self._check_remembered(f"parameter {index}", tensor, remembered)
        checked = [self._checked(options) for options in groups]
        for group, options in zip(self.param_groups, checked, strict=True):
            group.update(options)
        self.state = [dict(remembered) for remembered in states]

    def _check_remembered(self, which: str, tensor: Tensor, remembered: dict[str, Any]) -> None:
        """``remembered`` must be nothing, or what steps of this kind of optimizer leave for ``tensor``."""
        if remembered and remembered.keys() != self._remembered:
            found, expected = sorted(remembered), sorted(self._remembered)
            raise Error(f"the state of {which} is {found}, expected {expected}: it is another optimizer's")
        for name, value in remembered.items():
            what = f"the state {name!r} of {which}"
            if name == "step":
                _checks.integer(what, value, 0, _checks.INT64_MAX)
            elif not isinstance(value, Tensor):
                raise TypeError(f"{what} must be a kael.Tensor, not {type(value).__name__}")
            elif (value.dtype, value.shape) != (tensor.dtype, tensor.shape):
                of_tensor = f"{tensor.dtype} {list(tensor.shape)}"
                raise Error(f"{what} is {value.dtype} {list(value.shape)}, expected {of_tensor}")


def _parameter(index: int, tensor: Any) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise TypeError(f"parameter {index} must be a kael.Tensor, not {type(tensor).__name__}")
    if not tensor.is_leaf:
        raise Error(f"parameter {index} is the result of {tensor._made_by()}, expected a leaf")
    return tensor


def _contiguous(tensor: Tensor) -> Tensor:
    return tensor.contiguous()


def _zeros_like(tensor: Tensor) -> Tensor:
    return kael.zeros(*tensor.shape, dtype=tensor.dtype)


def _rate(name: str, value: Any, least: float = 0.0, below: float = math.inf) -> float:
    number = float(_checks.number(name, value))
    if not least <= number < below:
        raise Error(f"{name} is {value}, expected {least:g} to less than {below:g}")
    return number


def _decay_rates(name: str, value: Any) -> tuple[float, float]:
    if not isinstance(value, (tuple, list)) or len(value) != 2:
        raise TypeError(f"{name} must be two numbers, not {value!r}")
    first, second = (_rate(f"{name}[{index}]", rate, below=1.0) for index, rate in enumerate(value))
    return first, second


class SGD(Optimizer):
    """Gradient descent, with momentum where that is not 0."""

    _options: ClassVar = {"lr": _rate, "momentum": _rate, "weight_decay": _rate}
    _remembered = frozenset({"momentum_buffer"})

    def __init__(
        self, params: Parameters, lr: float = 1e-3, momentum: float = 0.0, weight_decay: float = 0.0
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    def _step(self, tensor: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        velocity = None
        if group["momentum"]:
            if not state:
                state["momentum_buffer"] = _zeros_like(tensor)
            velocity = state["momentum_buffer"]
        options = (float(group[name]) for name in ("lr", "momentum", "weight_decay"))
        apply_in_place("sgd_step_", tensor, gradient, velocity, *options)


class Adam(Optimizer):
    """Adam; ``weight_decay`` is added to the gradient."""

    _options: ClassVar = {"lr": _rate, "betas": _decay_rates, "eps": _rate, "weight_decay": _rate}
    _remembered = frozenset({"step", "exp_avg", "exp_avg_sq"})
    _decoupled = False

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    def _step(self, tensor: Tensor, gradient: Tensor, state: dict[str, Any], group: dict[str, Any]) -> None:
        if not state:
            state.update(step=0, exp_avg=_zeros_like(tensor), exp_avg_sq=_zeros_like(tensor))
        step = state["step"] + 1
        apply_in_place(
            "adam_step_",
            tensor,
            gradient,
            state["exp_avg"],
            state["exp_avg_sq"],
            step,
            float(group["lr"]),
            *map(float, group["betas"]),
            float(group["eps"]),
            float(group["weight_decay"]),
            self._decoupled,
        )
        state["step"] = step  # only when it was taken


class AdamW(Adam):
    """Adam with decoupled decay: parameters shrink by ``lr * weight_decay`` of themselves at each step."""

    _decoupled = True

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
    ) -> None:
        super().__init__(params, lr, betas, eps, weight_decay)


class CosineSchedule:
    """Sets the learning rate of every group before each step: from 0 up to the group's own in
    ``warmup_steps``, then down half a cosine to ``final_share`` of it at ``total_steps``, where it stays.

        schedule = CosineSchedule(optimizer, warmup_steps=100, total_steps=5000, final_share=0.1)
        ...
        optimizer.step()
        schedule.step()
    """

    def __init__(
        self, optimizer: Optimizer, warmup_steps: int, total_steps: int, final_share: float = 0.0
    ) -> None:
        self._warmup = _checks.integer("warmup_steps", warmup_steps, 0, _checks.INT64_MAX)
        self._total = _checks.integer("total_steps", total_steps, 1, _checks.INT64_MAX)
        if self._warmup >= self._total:
            raise Error(f"warmup_steps is {warmup_steps}, expected less than total_steps, {total_steps}")
        self._final = _rate("final_share", final_share)
        self._optimizer = optimizer
        self._peaks = [float(group["lr"]) for group in optimizer.param_groups]
        self.steps = 0
        self._apply()

    def share(self, steps: int) -> float:
        """Of the group's own rate, for the step after ``steps`` steps."""
        if steps < self._warmup:
            return (steps + 1) / self._warmup
        way = min((steps - self._warmup) / (self._total - self._warmup), 1.0)
        return self._final + (1.0 - self._final) * (1.0 + math.cos(math.pi * way)) / 2.0

    def step(self) -> None:
        """To be called after each step of the optimizer."""
        self.steps += 1
        self._apply()

    def state_dict(self) -> dict[str, Any]:
        """What :meth:`load_state_dict` takes."""
        return {"steps": self.steps, "peaks": list(self._peaks)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on where the schedule of ``state`` was, with as many groups and its own totals."""
        steps = _checks.integer("steps", state["steps"], 0, _checks.INT64_MAX)
        peaks = [_rate("a peak of the state", peak) for peak in state["peaks"]]
        if len(peaks) != len(self._peaks):
            raise Error(f"the state is of {len(peaks)} groups, expected {len(self._peaks)}")
        self.steps, self._peaks = steps, peaks
        self._apply()

    def _apply(self) -> None:
        for group, peak in zip(self._optimizer.param_groups, self._peaks, strict=True):
            group["lr"] = peak * self.share(self.steps)


def clip_grad_norm_(parameters: Iterable[Tensor], max_norm: float) -> float:
    """Scales the gradients of the parameters so that their L2 norm together is at most ``max_norm``, and
    returns what it was. Gradients whose norm is not finite are left as they are, and all with a ``max_norm``
    of infinity.
    """
    gradients = [gradient for gradient in (tensor.grad for tensor in parameters) if gradient is not None]
    limit = math.inf if max_norm == math.inf else float(_checks.number("max_norm", max_norm))
    if not gradients:
        return 0.0
    return float(apply("clip_grad_norm", gradients, limit).item())
