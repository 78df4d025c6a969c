"""Modules: what has parameters, and modules below it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

from kael import _checks
from kael._errors import Error
from kael._state import copy_state
from kael._tensor import Tensor

_FLOATS = ("float32", "float64", "float16", "bfloat16")


def Parameter(data: Tensor, requires_grad: bool = True) -> Tensor:  # as in PyTorch
    """The tensor as a leaf that requires a gradient: what a module takes for a parameter of its own."""
    if not isinstance(data, Tensor):
        raise TypeError(f"a parameter must be a kael.Tensor, not {type(data).__name__}")
    return data.detach().requires_grad_(_checks.flag("requires_grad", requires_grad))


class Module:
    """A part of a network. A subclass assigns parameters and other modules to attributes in ``__init__`` and
    computes in ``forward``; calling the module calls ``forward``.

    A parameter is a leaf tensor that requires a gradient when it is assigned; other tensors that belong to
    the state come by :meth:`register_buffer`. One thread at a time may change a module, any number may call
    it.
    """

    training: bool

    def __init__(self) -> None:
        object.__setattr__(self, "_parameters", {})
        object.__setattr__(self, "_buffers", {})
        object.__setattr__(self, "_modules", {})
        object.__setattr__(self, "training", True)

    def __setattr__(self, name: str, value: Any) -> None:
        tables = self.__dict__
        if "_parameters" not in tables:
            raise Error(
                f"{type(self).__name__}.{name} is assigned, expected a call of super().__init__() before"
            )
        for table in (tables["_parameters"], tables["_buffers"], tables["_modules"]):
            table.pop(name, None)
        tables.pop(name, None)
        if isinstance(value, Module):
            tables["_modules"][name] = value
        elif isinstance(value, Tensor) and value.is_leaf and value.requires_grad:
            tables["_parameters"][name] = value
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        for table in ("_parameters", "_buffers", "_modules"):
            found = self.__dict__.get(table, {})
            if name in found:
                return found[name]
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __delattr__(self, name: str) -> None:
        for table in ("_parameters", "_buffers", "_modules"):
            if self.__dict__[table].pop(name, None) is not None:
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        names = [name for table in ("_parameters", "_buffers", "_modules") for name in self.__dict__[table]]
        return [*super().__dir__(), *names]

    def register_buffer(self, name: str, tensor: Tensor) -> None:
        """A tensor that is no parameter but part of :meth:`state_dict`."""
        if not isinstance(tensor, Tensor):
            raise TypeError(f"buffer {name!r} must be a kael.Tensor, not {type(tensor).__name__}")
        setattr(self, name, None)
        del self.__dict__[name]
        self.__dict__["_buffers"][name] = tensor

    def forward(self, *arguments: Any, **options: Any) -> Any:
        """What the module computes."""
        raise Error(f"{type(self).__name__} has no forward(), expected its class to define one")

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        return self.forward(*arguments, **options)

    # -- What there is below

    def children(self) -> Iterator[Module]:
        """The modules that are attributes of this one."""
        return iter(self.__dict__["_modules"].values())

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all below it, each once, with their paths (``"layers.0"``)."""
        seen: set[int] = set()
        waiting: list[tuple[str, Module]] = [(prefix, self)]
        while waiting:
            name, module = waiting.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield name, module
            below = [(f"{name}.{key}" if name else key, child) for key, child in module._modules.items()]
            waiting.extend(reversed(below))

    def modules(self) -> Iterator[Module]:
        """The modules of :meth:`named_modules`."""
        return (module for _, module in self.named_modules())

    def _named_tensors(self, *tables: str) -> Iterator[tuple[str, Tensor]]:
        for name, module in self.named_modules():
            for table in tables:
                for key, tensor in module.__dict__[table].items():
                    yield (f"{name}.{key}" if name else key), tensor

    def named_parameters(self) -> Iterator[tuple[str, Tensor]]:
        """Every parameter once, also one that several modules share, under its first path."""
        seen: set[int] = set()
        for name, tensor in self._named_tensors("_parameters"):
            if id(tensor) not in seen:
                seen.add(id(tensor))
                yield name, tensor

    def parameters(self) -> Iterator[Tensor]:
        """The tensors of :meth:`named_parameters`."""
        return (tensor for _, tensor in self.named_parameters())

    # -- State

    def state_dict(self) -> dict[str, Tensor]:
        """Parameters and buffers by path, without their record: :func:`kael.save_safetensors` takes it. The
        tensors share the module's memory.
        """
        return {name: tensor.detach() for name, tensor in self._named_tensors("_parameters", "_buffers")}

    def load_state_dict(self, state: Mapping[str, Tensor], strict: bool = True) -> None:
        """Copies values into parameters and buffers. With ``strict`` both must have the same names; shapes
        must always be the same. Nothing is changed when something does not fit.
        """
        copy_state(dict(self._named_tensors("_parameters", "_buffers")), state, strict)

    def train(self, mode: bool = True) -> Self:
        """Training mode for this module and all below it, or evaluation mode."""
        wanted = _checks.flag("mode", mode)
        for module in self.modules():
            object.__setattr__(module, "training", wanted)
        return self

    def eval(self) -> Self:
        """Evaluation mode: dropout does nothing."""
        return self.train(False)

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Says of every parameter, here and in all modules below, whether it needs a gradient. Returns the
        module.
        """
        for parameter in self.parameters():
            parameter.requires_grad_(requires_grad)
        return self

    def zero_grad(self) -> None:
        """Sets the gradient of every parameter to None."""
        for tensor in self.parameters():
            tensor.grad = None

    def to(self, dtype: str) -> Self:
        """Replaces parameters and buffers of floats by copies of another float dtype, which require gradients
        where the former ones did. An optimizer that has the former ones must be made anew.
        """
        _checks.choice("dtype", dtype, _FLOATS)
        tables = [
            module.__dict__[table] for module in self.modules() for table in ("_parameters", "_buffers")
        ]
        copies: dict[int, Tensor] = {}
        for tensors in tables:
            for tensor in tensors.values():
                if tensor.dtype in _FLOATS and id(tensor) not in copies:
                    copies[id(tensor)] = tensor.detach().to(dtype).requires_grad_(tensor.requires_grad)
        for tensors in tables:  # once all of them are there
            tensors.update({key: copies.get(id(tensor), tensor) for key, tensor in tensors.items()})
        return self

    def extra_repr(self) -> str:
        """What stands between the parentheses for a module without others below it."""
        return ""

    def __repr__(self) -> str:
        below = [f"({name}): {module!r}" for name, module in self._modules.items()]
        if not below:
            return f"{type(self).__name__}({self.extra_repr()})"
        lines = "\n".join(below).replace("\n", "\n  ")
        return f"{type(self).__name__}(\n  {lines}\n)"
