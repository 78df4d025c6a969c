"""What a training is told: sizes of its steps, rates, and how often it looks up."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from kael import _checks, _signatures
from kael._errors import Error

_MOST = 2**31 - 1


@dataclass(frozen=True)
class Options:
    """Everything but the model and the text. Raises :class:`kael.Error` for a value that makes no sense."""

    steps: int = 1000
    batch_size: int = 16  #: windows that go through the model at once
    accumulate: int = 1  #: batches to a step: their gradients are added up
    context: int = 256  #: tokens to a window
    learning_rate: float = 1e-3  #: the highest, after ``warmup_steps``
    warmup_steps: int = 100
    final_share: float = 0.1  #: of the learning rate, at the end of a cosine
    weight_decay: float = 0.1  #: of matrices; vectors have none
    beta_1: float = 0.9
    beta_2: float = 0.95
    clip_norm: float = 1.0  #: gradients with a larger norm are scaled down to it; 0: they are not
    evaluate_every: int = 100  #: steps between two looks at the validation text
    evaluation_windows: int = 64  #: of the validation text, always the same
    patience: int = 0  #: looks without improvement after which it ends; 0: it does not
    #: of float32 products: see :func:`kael.set_float32_matmul_precision`
    matmul_precision: str = "highest"
    seed: int = 0  #: of the weights, of the order of the text and of dropout

    def __post_init__(self) -> None:
        for name, low in (
            ("steps", 1),
            ("batch_size", 1),
            ("accumulate", 1),
            ("context", 1),
            ("warmup_steps", 0),
            ("evaluate_every", 1),
            ("evaluation_windows", 1),
            ("patience", 0),
        ):
            _checks.integer(name, getattr(self, name), low, _MOST)
        _checks.integer("seed", self.seed, 0, _checks.UINT64_MAX)
        for name, high in (
            ("learning_rate", 1e3),
            ("final_share", 1.0),
            ("weight_decay", 1e3),
            ("beta_1", 1.0),
            ("beta_2", 1.0),
            ("clip_norm", 1e30),
        ):
            number = _checks.number(name, getattr(self, name))
            if not 0 <= number <= high:
                raise Error(f"{name} is {number:g}, expected 0 to {high:g}")
        _checks.choice("matmul_precision", self.matmul_precision, _signatures.MATMUL_PRECISIONS)
        if self.warmup_steps >= self.steps:
            raise Error(f"warmup_steps is {self.warmup_steps}, expected less than the {self.steps} steps")

    @classmethod
    def from_fields(cls, values: Any) -> Options:
        """The options that a checkpoint holds as names and values."""
        known = {field.name for field in fields(cls)}
        given = _checks.mapping("options", values)
        if set(given) != known:
            raise Error(f"the options of a training are {sorted(known)}, found {sorted(given)}")
        return cls(**given)
