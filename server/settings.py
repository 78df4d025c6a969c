"""What the operator of a server decides, apart from the model."""

from __future__ import annotations

from dataclasses import dataclass

from .limits import MAX_BODY_BYTES

# In the lists of hosts and of origins.
ANY = "*"


@dataclass(frozen=True)
class Settings:
    """The defaults are those of the command line. Times are in seconds."""

    api_keys: tuple[str, ...] = ()  # of which a request must have one, unless there is none
    allowed_hosts: tuple[str, ...] | None = None  # names in small letters; None checks no name
    cors_origins: tuple[str, ...] = ()  # whose web pages may ask and read, in small letters
    busy_status: int = 429  # or 503, for balancers that try the next server only then
    queue: int = 0  # requests that may wait for the slot
    no_prefix_cache: bool = False  # computes every prompt from its first token on
    speculate: int = 0  # tokens to guess and try at once, at most
    max_body_bytes: int = MAX_BODY_BYTES
    ping_seconds: float = 15.0  # between two comments of a stream that has nothing to say; 0 for none
    stall_seconds: float = 30.0  # for a client that takes nothing of its answer, once that is whole
    idle_seconds: float = 75.0  # for a connection to be idle, or to send the headers of a request
    body_seconds: float = 30.0  # for the body of a request
