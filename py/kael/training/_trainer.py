"""The steps of a training."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import kael
from kael import _checks
from kael._errors import Error
from kael.data import TokenBatches
from kael.training._options import Options

# Of the windows of the validation text, which are the same in every training.
_EVALUATION_SEED = 0
# Where in the stream of a seed the words for dropout begin, far behind those for the weights.
_DROPOUT_WORDS = 1 << 62


class StepReport(NamedTuple):
    """What a step was."""

    step: int  #: from 1 on
    loss: float  #: the mean over its tokens, before the step
    learning_rate: float
    gradient_norm: float  #: before clipping


class Trainer:
    """Trains ``model`` with AdamW on ``training`` tokens [N] and measures on ``validation`` tokens. One
    thread at a time.

    The weights after n steps depend on the weights before, the tokens and the options alone: not on the
    number of threads, nor on how often the training was interrupted and resumed with :meth:`save` and
    :meth:`load`. With the ``matmul_precision`` "medium" they depend on the kind of processor as well.
    """

    def __init__(self, model: kael.GPT, training: Any, validation: Any, options: Options) -> None:
        limit = model.config.max_positions
        if options.context > limit:
            raise Error(f"context is {options.context}, expected at most the model's {limit} positions")
        self.model = model
        self.options = options
        self._batches = TokenBatches(training, options.batch_size, options.context, options.seed)
        self._evaluations = _evaluation_batches(validation, options)
        parameters = model.train().requires_grad_().parameters()
        matrices = [parameter for parameter in parameters if len(parameter.shape) > 1]
        vectors = [parameter for parameter in parameters if len(parameter.shape) <= 1]
        self._optimizer = kael.optim.AdamW(
            [
                {"params": matrices, "weight_decay": options.weight_decay},
                {"params": vectors, "weight_decay": 0.0},
            ],
            lr=options.learning_rate,
            betas=(options.beta_1, options.beta_2),
        )
        self._schedule = kael.optim.CosineSchedule(
            self._optimizer, options.warmup_steps, options.steps, options.final_share
        )
        self.steps_done = 0

    @property
    def tokens_per_step(self) -> int:
        """Tokens that are predicted in one step."""
        return self.options.accumulate * self.options.batch_size * self.options.context

    @property
    def epochs_per_step(self) -> float:
        """The share of the training text that one step reads."""
        return self.options.accumulate / self._batches.batches_per_epoch

    def step(self, should_stop: Callable[[], bool] | None = None) -> StepReport | None:
        """One step. Raises :class:`kael.Error` where the loss or the gradients are not finite; then the
        weights are those before the step. So they are where it returns None: where ``should_stop``, which is
        asked before each batch but the first, said so.
        """
        with _multiplying_in(self.options.matmul_precision):
            return self._step(should_stop)

    def _step(self, should_stop: Callable[[], bool] | None) -> StepReport | None:
        options = self.options
        rate = self._optimizer.param_groups[0]["lr"]
        self._optimizer.zero_grad()
        total = 0.0
        for part in range(options.accumulate):
            if part > 0 and should_stop is not None and should_stop():
                return None
            loss = self._training_loss(self.steps_done * options.accumulate + part)
            (loss / options.accumulate).backward()
            total += loss.item() / options.accumulate
        norm = kael.optim.clip_grad_norm_(self._optimizer.parameters(), options.clip_norm or math.inf)
        number = self.steps_done + 1
        if not (math.isfinite(total) and math.isfinite(norm)):
            raise _diverged(
                f"the loss of step {number} is {total:g} and its gradients have the norm {norm:g}"
            )
        self._optimizer.step()
        self._schedule.step()
        self.steps_done = number
        return StepReport(number, total, rate, norm)

    def validation_loss(self) -> float:
        """The mean loss over windows of the validation text, always the same ones. Raises
        :class:`kael.Error` where it is not finite.
        """
        self.model.eval()
        try:
            with kael.no_grad(), _multiplying_in(self.options.matmul_precision):
                sums = [
                    self._loss(inputs, targets).item() * inputs.shape[0]
                    for inputs, targets in self._evaluations
                ]
        finally:
            self.model.train()
        if not all(map(math.isfinite, sums)):
            raise _diverged(f"after step {self.steps_done} the loss on the validation text is not finite")
        return math.fsum(sums) / sum(inputs.shape[0] for inputs, _ in self._evaluations)

    def _training_loss(self, batch: int) -> kael.Tensor:
        """Dropout draws a word that belongs to the batch, whatever the process drew before."""
        before = kael.random_state()
        kael.set_random_state((self.options.seed, _DROPOUT_WORDS + batch))
        try:
            return self._loss(*self._batches[batch])
        finally:
            kael.set_random_state(before)

    def _loss(self, inputs: kael.Tensor, targets: kael.Tensor) -> kael.Tensor:
        logits = self.model(inputs)
        return kael.nn.functional.cross_entropy(
            logits.reshape(-1, logits.shape[-1]),
            targets.reshape(-1),
        )

    def save(self, path: Any, progress: dict[str, Any]) -> None:
        """Writes all that :meth:`load` needs to go on, and ``progress``."""
        state = {**progress, "steps_done": self.steps_done}
        kael.save_checkpoint(path, self.model, self._optimizer, self._schedule, state)

    def load(self, path: Any) -> dict[str, Any]:
        """Goes on where the training that wrote ``path`` was; answers with its ``progress``."""
        progress = kael.load_checkpoint(path, self.model, self._optimizer, self._schedule)
        self.steps_done = _checks.integer("steps_done", progress.pop("steps_done"), 0, self.options.steps)
        return progress


@contextlib.contextmanager
def _multiplying_in(precision: str) -> Iterator[None]:
    """The precision of float32 products for a while; it is the process's."""
    before = kael.get_float32_matmul_precision()
    kael.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        kael.set_float32_matmul_precision(before)


def _diverged(what: str) -> Error:
    return Error(f"{what}: try a lower learning rate or a longer warm-up")


def _evaluation_batches(validation: Any, options: Options) -> list[tuple[kael.Tensor, kael.Tensor]]:
    context = min(options.context, len(validation) - 1)
    if context < 1:
        raise Error(
            f"the validation text has {len(validation)} tokens, expected at least 2: give more text or a "
            "larger share of it"
        )
    windows = TokenBatches(validation, 1, context, _EVALUATION_SEED)
    count = min(options.evaluation_windows, windows.windows_per_epoch)
    batches = []
    for first in range(0, count, options.batch_size):
        rows = [windows[row] for row in range(first, min(first + options.batch_size, count))]
        inputs, targets = (np.concatenate([row[side].numpy() for row in rows]) for side in (0, 1))
        batches.append((kael.from_numpy(inputs), kael.from_numpy(targets)))
    return batches
