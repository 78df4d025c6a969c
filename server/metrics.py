"""What GET /metrics says, in a registry of its own."""

from __future__ import annotations

import resource
import sys

import prometheus_client
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder

# Only once for the process, and before the first metric: a series for the time at which each counter began
# is a surprise in every dashboard.
prometheus_client.disable_created_metrics()

OUTCOMES = ("ok", "busy", "rejected", "error", "cancelled")
REQUEST_SECONDS_BUCKETS = (0.1, 0.5, 1, 2, 5, 10, 30, 60, 120)

# ru_maxrss counts kibibytes on Linux and bytes on macOS.
_PEAK_MEMORY_UNIT = 1 if sys.platform == "darwin" else 1024


def peak_memory_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_MEMORY_UNIT


class Metrics:
    """Counters of one server. Any thread: each value has a lock of its own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        requests = Counter("kael_requests_total", "Requests by outcome.", ["status"], registry=self.registry)
        # Made at once, so that each series starts at 0.
        self._requests = {outcome: requests.labels(outcome) for outcome in OUTCOMES}
        self._tokens = Counter(
            "kael_generated_tokens_total", "Tokens generated across all requests.", registry=self.registry
        )
        self._rate = Gauge(
            "kael_tokens_per_second", "Rate of the most recent generation.", registry=self.registry
        )
        self._in_flight = Gauge(
            "kael_requests_in_flight", "Generations that hold the slot: 0 or 1.", registry=self.registry
        )
        self._seconds = Histogram(
            "kael_request_seconds",
            "Time of the generation, without reading the request and encoding the prompt.",
            buckets=REQUEST_SECONDS_BUCKETS,
            registry=self.registry,
        )
        peak = Gauge("kael_peak_memory_bytes", "Peak resident memory of the process.", registry=self.registry)
        peak.set_function(peak_memory_bytes)

    @property
    def in_flight(self) -> int:
        """Generations that hold the slot at the moment."""
        return int(self.registry.get_sample_value("kael_requests_in_flight") or 0)

    def count_request(self, outcome: str) -> None:
        """A request has ended, as one of OUTCOMES."""
        self._requests[outcome].inc()

    def slot_taken(self) -> None:
        self._in_flight.inc()

    def slot_released(self) -> None:
        self._in_flight.dec()

    def finish_generation(self, tokens: int, seconds: float) -> None:
        """A generation has ended after this many tokens, however it ended."""
        self._tokens.inc(tokens)
        self._rate.set(tokens / seconds if seconds > 0 else 0.0)
        self._seconds.observe(seconds)

    def render(self, accept: str) -> tuple[bytes, str]:
        """The page and its content type, in the format that an Accept header asks for."""
        try:
            encode, content_type = choose_encoder(accept)
        except (TypeError, ValueError):  # a version that is no number
            encode, content_type = choose_encoder("")
        return encode(self.registry), content_type
