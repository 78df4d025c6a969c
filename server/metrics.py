"""What GET /metrics says, in a registry of its own."""

from __future__ import annotations

import platform
import resource
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import prometheus_client
import tornado
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import choose_encoder

import kael

from . import __version__
from .errors import BUSY_REASONS, REJECTED_REASONS

# Only once for the process, and before the first metric: a series for the time at which each counter began
# is a surprise in every dashboard.
prometheus_client.disable_created_metrics()  # type: ignore[no-untyped-call]

_Kind = TypeVar("_Kind", Counter, Gauge, Histogram, Info)

OUTCOMES = ("ok", "busy", "rejected", "error", "cancelled")
REQUEST_SECONDS_BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120)
FIRST_TOKEN_BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
BETWEEN_TOKENS_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)
CANCEL_BUCKETS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5)

# ru_maxrss counts kibibytes on Linux and bytes on macOS.
_PEAK_MEMORY_UNIT = 1 if sys.platform == "darwin" else 1024


def peak_memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_MEMORY_UNIT


class Metrics:
    """Counters of one server. Any thread: each value has a lock of its own."""

    def __init__(self, dtype: str = "float32") -> None:
        self.registry = CollectorRegistry()
        self._taken_at: float | None = None  # when the slot was, while it is
        self._make_the_six()
        rejected = self._make(
            Counter, "kael_rejected_total", "Requests that got no generation, by reason.", ["reason"]
        )
        self._rejected = {reason: rejected.labels(reason) for reason in (*BUSY_REASONS, *REJECTED_REASONS)}
        self._prompt_tokens = self._make(
            Counter, "kael_prompt_tokens_total", "Tokens of the prompts that were generated from."
        )
        self._cached_tokens = self._make(
            Counter,
            "kael_cached_prompt_tokens_total",
            "Tokens of prompts that began as the generation before, for which nothing was computed.",
        )
        self._guessed_tokens = self._make(
            Counter,
            "kael_guessed_tokens_total",
            "Generated tokens that were guessed from the text and took no pass of the model.",
        )
        self._first_token = self._make(
            Histogram,
            "kael_time_to_first_token_seconds",
            "From the end of a request's body to its first token.",
            buckets=FIRST_TOKEN_BUCKETS,
        )
        self._between_tokens = self._make(
            Histogram,
            "kael_time_between_tokens_seconds",
            "From each token to the next of its generation.",
            buckets=BETWEEN_TOKENS_BUCKETS,
        )
        self._cancel = self._make(
            Histogram,
            "kael_cancel_seconds",
            "From the end of a client's connection to the slot that is free.",
            buckets=CANCEL_BUCKETS,
        )
        self._slot_busy = self._make(
            Counter,
            "kael_slot_busy_seconds_total",
            "Time in which the slot was taken, counted when it is free again.",
        )
        held = self._make(
            Gauge, "kael_slot_held_seconds", "For how long the slot is taken; 0 while it is free."
        )
        held.set_function(self._held_seconds)
        self._waiting = self._make(Gauge, "kael_requests_waiting", "Requests that wait for the slot.")
        build = self._make(Info, "kael_build", "Versions, and what the weights are kept in.")
        build.info(
            {
                "version": __version__,
                "library": kael.__version__,
                "python": platform.python_version(),
                "tornado": tornado.version,
                "dtype": dtype,
            }
        )

    def _make_the_six(self) -> None:
        requests = self._make(Counter, "kael_requests_total", "Requests by outcome.", ["status"])
        # Made at once, so that each series starts at 0.
        self._requests = {outcome: requests.labels(outcome) for outcome in OUTCOMES}
        self._tokens = self._make(
            Counter, "kael_generated_tokens_total", "Tokens generated across all requests."
        )
        self._rate = self._make(Gauge, "kael_tokens_per_second", "Rate of the most recent generation.")
        self._in_flight = self._make(
            Gauge, "kael_requests_in_flight", "Generations that hold the slot: 0 or 1."
        )
        self._seconds = self._make(
            Histogram,
            "kael_request_seconds",
            "Time of the generation, without reading the request and encoding the prompt.",
            buckets=REQUEST_SECONDS_BUCKETS,
        )
        peak = self._make(Gauge, "kael_peak_memory_bytes", "Peak resident memory of the process.")
        peak.set_function(peak_memory_bytes)

    def _make(
        self, kind: type[_Kind], name: str, text: str, labels: Iterable[str] = (), **options: Any
    ) -> _Kind:
        return kind(name, text, labels, registry=self.registry, **options)

    def _held_seconds(self) -> float:
        taken_at = self._taken_at
        return 0.0 if taken_at is None else time.monotonic() - taken_at

    @property
    def in_flight(self) -> int:
        """Generations that hold the slot at the moment."""
        return int(self.registry.get_sample_value("kael_requests_in_flight") or 0)

    def count_request(self, outcome: str, reason: str | None = None) -> None:
        """A request has ended, as one of OUTCOMES; busy and rejected ones for a reason."""
        self._requests[outcome].inc()
        if reason is not None:
            self._rejected[reason].inc()

    def count_waiting(self, count: Callable[[], int]) -> None:
        """``count`` says how many requests wait. It is asked on any thread."""
        self._waiting.set_function(count)

    def slot_taken(self) -> None:
        self._taken_at = time.monotonic()
        self._in_flight.inc()

    def slot_released(self) -> None:
        self._slot_busy.inc(self._held_seconds())
        self._taken_at = None
        self._in_flight.dec()

    def begin_generation(self, prompt_tokens: int) -> None:
        self._prompt_tokens.inc(prompt_tokens)

    def count_spared_tokens(self, cached: int, guessed: int) -> None:
        """Tokens that cost nothing and have been counted with the others: ``cached`` ones of a prompt and
        ``guessed`` ones of a generation."""
        self._cached_tokens.inc(cached)
        self._guessed_tokens.inc(guessed)

    def finish_generation(self, tokens: int, seconds: float) -> None:
        """A generation has ended after this many tokens, however it ended."""
        self._tokens.inc(tokens)
        self._rate.set(tokens / seconds if seconds > 0 else 0.0)
        self._seconds.observe(seconds)

    def observe_tokens(self, first: float | None, gaps: Iterable[float]) -> None:
        """The seconds to the first token of a request, if it had one, and those between its tokens."""
        if first is not None:
            self._first_token.observe(first)
        for seconds in gaps:
            self._between_tokens.observe(seconds)

    def observe_cancellation(self, left_at: float) -> None:
        """The slot becomes free, whose client left at this time.monotonic()."""
        self._cancel.observe(time.monotonic() - left_at)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The page and its content type, in the format that an Accept header asks for."""
        try:
            encode, content_type = choose_encoder(accept)
        except (TypeError, ValueError):  # a version that is no number
            encode, content_type = choose_encoder("")
        return encode(self.registry), content_type
