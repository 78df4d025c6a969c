"""How a token is picked from logits: the options that generation and ``sample_next`` share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kael import _checks, _signatures


@dataclass(frozen=True, slots=True)
class Sampling:
    """The options in the order of their steps; the defaults leave each step out."""

    logit_bias: Mapping[int, float] = field(default_factory=dict)
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0

    def write_to(self, options: Any) -> None:
        """Fills a ``GenerateOptions``, which keeps alive what it points to. Wrong types are refused here,
        values by the library.
        """
        biases = [
            _signatures.LogitBias(
                _checks.integer("a token of logit_bias", token, 0, _checks.INT64_MAX),
                _checks.number("a value of logit_bias", bias),
            )
            for token, bias in _checks.mapping("logit_bias", self.logit_bias).items()
        ]
        options.logit_biases = (_signatures.LogitBias * len(biases))(*biases)
        options.logit_bias_count = len(biases)
        options.repetition_penalty = _checks.number("repetition_penalty", self.repetition_penalty)
        options.presence_penalty = _checks.number("presence_penalty", self.presence_penalty)
        options.frequency_penalty = _checks.number("frequency_penalty", self.frequency_penalty)
        options.temperature = _checks.number("temperature", self.temperature)
        options.top_k = _checks.integer("top_k", self.top_k, 0, _checks.INT64_MAX)
        options.top_p = _checks.number("top_p", self.top_p)
        options.min_p = _checks.number("min_p", self.min_p)
