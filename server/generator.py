"""The model, its tokenizer and the one slot in which a generation runs."""

from __future__ import annotations

import inspect
import logging
import math
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import kael

from . import errors
from .bridge import Bridge, has_ring, open_bridge
from .metrics import Metrics
from .request import GenerateRequest
from .schema import field_error

log = logging.getLogger(__name__)

# The most that a refused client is asked to wait before it tries again.
MAX_RETRY_SECONDS = 60


class Generator:
    """Runs one generation at a time.

    ``model`` is anything with ``generate(ids, max_tokens, temperature=, top_k=, on_token=)``, and those of
    the other options of :meth:`kael.GPT.generate` that requests use; ``tokenizer`` anything with
    ``encode(text)`` and ``decode(ids) -> bytes``, which several threads may call at once. A
    :class:`kael.GPT` is run through its native ring instead, and alone gives log probabilities; only for it
    there are ``reuse_prefix`` and ``speculate``, which are those of its ``generate``.

    Who holds ``slot`` releases it: the request's handler until :meth:`start` returns, from then on the worker
    thread, so that no client can keep it.
    """

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        device: str = "cpu",
        context: int = 1024,
        name: str = "kael",
        reuse_prefix: bool = True,
        speculate: int = 0,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.device = device
        self.context = context
        self.name = name  # by which clients of /v1 know the model
        self.reuse_prefix = reuse_prefix
        self.speculate = speculate
        self.created = int(time.time())
        self.slot = threading.Lock()
        self.shutting_down = threading.Event()
        self.dtype: str = getattr(model, "dtype", "float32")
        self.metrics = Metrics(self.dtype)
        self.on_release: Callable[[], object] = lambda: None  # after each release of the slot, on any thread
        self._bridge: Bridge | None = None  # of the last generation that was started
        self._worker: threading.Thread | None = None

    def reserve(self) -> None:
        """Takes the slot without waiting. Raises :class:`RequestError` when it is taken (429) or will not be
        given any more (503)."""
        if self.shutting_down.is_set():
            raise errors.shutting_down()
        if not self.slot.acquire(blocking=False):
            raise self.busy()
        self.metrics.slot_taken()

    def release(self) -> None:
        """Gives the slot back. Any thread."""
        self.metrics.slot_released()
        self.slot.release()
        self.on_release()

    def busy(self, tokens_ahead: int = 0) -> errors.RequestError:
        """The refusal while the slot is taken, after which others have asked for so many tokens. It names the
        time that this is expected to take."""
        remaining = self._bridge.remaining_seconds(tokens_ahead) if self._bridge is not None else 0.0
        return errors.busy(min(max(math.ceil(remaining), 1), MAX_RETRY_SECONDS))

    def prompt_ids(self, request: GenerateRequest) -> list[int]:
        """The ids of the prompt, which fit the context together with what is to be generated. Slow enough to
        keep it off the loop."""
        prompt = request.prompt
        ids = prompt if isinstance(prompt, list) else self.encode(prompt, "/prompt", request.allow_special)
        if not ids:
            raise field_error("/prompt", "tokens", "must have at least 1 token")
        self.check_ids(ids, "/prompt")
        self.check_ids(request.logit_bias, "/logit_bias")
        for option in self._unsupported(request):
            raise field_error(f"/{option}", "unsupported", "is not supported by this model")
        if len(ids) + request.max_tokens > self.context:
            raise errors.outgrows_context(len(ids), request.max_tokens, self.context)
        return ids

    def _unsupported(self, request: GenerateRequest) -> Iterable[str]:
        """Fields that the request uses and that the model's ``generate`` has no argument for."""
        if has_ring(self.model):
            return []
        used = {"logprobs"} if request.logprobs is not None else set()
        parameters = inspect.signature(self.model.generate).parameters
        if not any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
            used |= request.sampling_options().keys() - parameters.keys()
        return sorted(used)

    def encode(self, text: str, field: str, allow_special: bool = False) -> list[int]:
        """The ids of a text, which stands in ``field``. Any thread."""
        options = {"allow_special": True} if allow_special else {}  # which not every tokenizer knows
        try:
            return list(self.tokenizer.encode(text, **options))
        except kael.Error as error:
            if error.code != kael.ErrorCode.INVALID_ARGUMENT:
                raise
            raise field_error(field, "vocabulary", "holds a byte that the vocabulary lacks") from error

    def check_ids(self, ids: Iterable[int], field: str) -> None:
        """Ids that stand in ``field`` must be of the model's vocabulary, where its size is known. Any
        thread."""
        size = getattr(getattr(self.model, "config", None), "vocab_size", None)
        if size is not None and any(token >= size for token in ids):
            raise field_error(field, "vocabulary", f"must have token ids of at most {size - 1}")

    def start(
        self, prompt: list[int], request: GenerateRequest, logprobs: kael.Logprobs | None = None
    ) -> Bridge:
        """Starts the worker thread, which owns the slot from then on, unless this raises. ``logprobs`` takes
        the model's log probabilities. Loop."""
        if self.shutting_down.is_set():  # since the slot was reserved
            raise errors.shutting_down()
        each_at_once = request.stream or bool(request.stop)  # a stop string ends the generation
        bridge = open_bridge(self.model, request.max_tokens, self.shutting_down, each_at_once)
        worker = threading.Thread(
            target=self._work, args=(prompt, request, bridge, logprobs), name="kael-generate", daemon=True
        )
        try:
            worker.start()
        except BaseException:
            bridge.end(None)
            bridge.close()
            raise
        self._bridge, self._worker = bridge, worker
        self.metrics.begin_generation(len(prompt))
        return bridge

    def _work(
        self,
        prompt: list[int],
        request: GenerateRequest,
        bridge: Bridge,
        logprobs: kael.Logprobs | None = None,
    ) -> None:
        error: BaseException | None = None
        try:
            self.run(prompt, request, bridge, logprobs)
        except BaseException as raised:
            error = raised
        # After the slot is free: a client that has seen the end must not be told that the model is busy.
        bridge.end(error)

    def run(
        self,
        prompt: list[int],
        request: GenerateRequest,
        bridge: Bridge,
        logprobs: kael.Logprobs | None = None,
    ) -> None:
        """One generation on the calling thread, which holds the slot and gives it back. Raises what the model
        raises."""
        started = time.perf_counter()
        try:
            bridge.generate(self.model, prompt, request.max_tokens, **self._options(request, logprobs))
        finally:
            # Before the slot: a scrape after the next request was let in must see this one.
            self.metrics.finish_generation(bridge.generated, time.perf_counter() - started)
            self.metrics.count_spared_tokens(bridge.cached_tokens or 0, bridge.guessed_tokens or 0)
            if bridge.left_at is not None:
                self.metrics.observe_cancellation(bridge.left_at)
            self.release()

    def _options(self, request: GenerateRequest, logprobs: kael.Logprobs | None) -> dict[str, Any]:
        options = request.sampling_options()
        stop_tokens = self.stop_tokens(request)
        if stop_tokens:
            options["stop_tokens"] = stop_tokens
        if logprobs is not None:
            options["logprobs"] = logprobs
        if has_ring(self.model):
            options |= {"reuse_prefix": self.reuse_prefix, "speculate": self.speculate}
        return options

    def stop_tokens(self, request: GenerateRequest) -> tuple[int, ...]:
        """The ids that end this request's generation."""
        end_of_text = getattr(self.tokenizer, "end_of_text", None)
        return (end_of_text,) if request.stop_at_eos and end_of_text is not None else ()

    def shut_down(self) -> None:
        """Lets no further generation begin and stops the running one at its next token. Loop."""
        self.shutting_down.set()
        if self._bridge is not None:
            self._bridge.stop()

    def join(self, seconds: float) -> bool:
        """Waits for the worker thread, which has nothing left to do once the slot is free."""
        if self._worker is not None:
            self._worker.join(seconds)
            return not self._worker.is_alive()
        return True
