"""The layers."""

from __future__ import annotations

import math
from typing import Any

import kael
from kael import _checks
from kael._errors import Error
from kael._tensor import Tensor
from kael.nn import functional
from kael.nn._module import Module, Parameter


def _size(name: str, value: Any) -> int:
    return _checks.integer(name, value, 1, _checks.INT64_MAX)


def _uniform(bound: float, *shape: int) -> Tensor:
    """Evenly from [-bound, bound)."""
    return Parameter(kael.rand(*shape) * (2.0 * bound) - bound)


def _normal(deviation: float, *shape: int) -> Tensor:
    return Parameter(kael.randn(*shape) * deviation)


def _zeros(*shape: int) -> Tensor:
    return Parameter(kael.zeros(*shape))


class Linear(Module):
    """``x`` [..., in] to [..., out]: times the transpose of ``weight`` [out, in], plus ``bias`` [out]. Both
    begin evenly spread within 1 / sqrt(in).
    """

    def __init__(self, in_features: int, out_features: int, bias: bool = True) -> None:
        super().__init__()
        self.in_features = _size("in_features", in_features)
        self.out_features = _size("out_features", out_features)
        bound = 1.0 / math.sqrt(self.in_features)
        self.weight = _uniform(bound, self.out_features, self.in_features)
        self.bias = _uniform(bound, self.out_features) if _checks.flag("bias", bias) else None

    def forward(self, x: Tensor) -> Tensor:
        return functional.linear(x, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


class Conv1D(Module):
    """GPT-2's linear layer: ``x`` [..., in] times ``weight`` [in, out] plus ``bias`` [out]. The weight begins
    normal with deviation 0.02, the bias as zeros.
    """

    def __init__(self, out_features: int, in_features: int) -> None:
        super().__init__()
        self.out_features = _size("out_features", out_features)
        self.in_features = _size("in_features", in_features)
        self.weight = _normal(0.02, self.in_features, self.out_features)
        self.bias = _zeros(self.out_features)

    def forward(self, x: Any) -> Tensor:
        return x @ self.weight + self.bias

    def extra_repr(self) -> str:
        return f"{self.out_features}, {self.in_features}"


class Embedding(Module):
    """The rows of ``weight`` [N, D] that int64 ids name. It begins normal with deviation 1."""

    def __init__(self, num_embeddings: int, embedding_dim: int) -> None:
        super().__init__()
        self.num_embeddings = _size("num_embeddings", num_embeddings)
        self.embedding_dim = _size("embedding_dim", embedding_dim)
        self.weight = _normal(1.0, self.num_embeddings, self.embedding_dim)

    def forward(self, ids: Tensor) -> Tensor:
        return functional.embedding(ids, self.weight)

    def extra_repr(self) -> str:
        return f"{self.num_embeddings}, {self.embedding_dim}"


class LayerNorm(Module):
    """Rows of ``size`` elements, centred and scaled, times ``weight`` (first ones) plus ``bias`` (zeros)."""

    def __init__(self, size: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.size = _size("size", size)
        self.eps = float(_checks.number("eps", eps))
        self.weight = Parameter(kael.ones(self.size))
        self.bias = _zeros(self.size)

    def forward(self, x: Tensor) -> Tensor:
        return functional.layer_norm(x, self.size, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return f"{self.size}, eps={self.eps:g}"


class Dropout(Module):
    """In training each element becomes 0 with probability ``p``, and the others grow by 1 / (1 - p)."""

    def __init__(self, p: float = 0.5) -> None:
        super().__init__()
        self.p = float(_checks.number("p", p))
        if not 0.0 <= self.p <= 1.0:
            raise Error(f"p is {p}, expected 0 to 1")

    def forward(self, x: Tensor) -> Tensor:
        return functional.dropout(x, self.p, self.training)

    def extra_repr(self) -> str:
        return f"p={self.p:g}"


class GELU(Module):
    """x times the normal distribution's share below x; ``approximate="tanh"`` as GPT-2 approximates it."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = _checks.choice("approximate", approximate, ("none", "tanh"))

    def forward(self, x: Tensor) -> Tensor:
        return functional.gelu(x, approximate=self.approximate)

    def extra_repr(self) -> str:
        return f"approximate={self.approximate!r}"


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(x)


class Tanh(Module):
    """The hyperbolic tangent."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.tanh(x)


class Sigmoid(Module):
    """1 / (1 + exp(-x))."""

    def forward(self, x: Tensor) -> Tensor:
        return functional.sigmoid(x)


class Sequential(Module):
    """Modules one after the other; named by their number."""

    def __init__(self, *modules: Module) -> None:
        super().__init__()
        for index, module in enumerate(modules):
            if not isinstance(module, Module):
                raise TypeError(
                    f"Sequential: module {index} must be a kael.nn.Module, not {type(module).__name__}"
                )
            setattr(self, str(index), module)

    def forward(self, x: Any) -> Any:
        for module in self.children():
            x = module(x)
        return x

    def __len__(self) -> int:
        return len(self._modules)

    def __getitem__(self, index: int) -> Module:
        return list(self.children())[index]


class CausalSelfAttention(Module):
    """GPT-2's attention: ``x`` [B, T, dimension] to the same shape; a position sees those before it."""

    def __init__(self, dimension: int, heads: int) -> None:
        super().__init__()
        self.heads = _size("heads", heads)
        width = _size("dimension", dimension)
        if width % self.heads:
            raise Error(
                f"CausalSelfAttention: dimension {dimension} is not a multiple of heads {heads}, expected one"
            )
        self.c_attn = Conv1D(3 * width, width)
        self.c_proj = Conv1D(width, width)

    def forward(self, x: Any) -> Tensor:
        batch, length, width = x.shape
        query, key, value = (
            part.reshape(batch, length, self.heads, width // self.heads).transpose(1, 2)
            for part in self.c_attn(x).chunk(3, -1)
        )
        mixed: Any = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.c_proj(mixed.transpose(1, 2).reshape(batch, length, width))


class MLP(Module):
    """GPT-2's two linear layers with a GELU (tanh) between: ``dimension`` to ``inner``, 4 times as wide when
    not given, and back.
    """

    def __init__(self, dimension: int, inner: int | None = None) -> None:
        super().__init__()
        width = _size("dimension", dimension)
        wide = 4 * width if inner is None else _size("inner", inner)
        self.c_fc = Conv1D(wide, width)
        self.c_proj = Conv1D(width, wide)

    def forward(self, x: Tensor) -> Tensor:
        return self.c_proj(functional.gelu(self.c_fc(x), approximate="tanh"))
