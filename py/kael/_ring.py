"""Tokens from the generating thread to an event loop, without Python on the generating thread."""

from __future__ import annotations

import ctypes

from kael import _checks, _signatures
from kael._errors import Error
from kael._handles import NotCopied, Owned
from kael._library import check_status, native

# Records taken by one call of the library; a loop that falls behind takes several.
_BATCH = 256


class TokenRing(NotCopied):
    """The native way from :meth:`kael.GPT.generate_into` to an event loop: one for each generation.

    Two threads use it. The *producer* runs ``model.generate_into(ring, ...)`` and then, when everything that
    must be done before the other side sees the end is done, :meth:`finish`. The *consumer* watches
    :meth:`fileno` until it is readable, calls :meth:`drain`, may :meth:`stop` the generation at any time, and
    calls :meth:`close` when it has stopped watching. Either may come last. Every call ends at once and takes
    no lock; collecting the object does what was left undone. Not usable in a child made by ``fork``.
    """

    __module__ = "kael"

    def __init__(self, max_tokens: int) -> None:
        """A ring with room for ``max_tokens`` tokens, the most that its generation may announce."""
        capacity = _checks.integer("max_tokens", max_tokens, 0, _checks.INT32_MAX)
        kept = native().kept
        handle = ctypes.POINTER(_signatures.TokenRingHandle)()
        self._functions = kept
        self._capacity = capacity
        # The library frees the ring when both shares are given up. Each share is given up when the last
        # reference to it goes: the one in its box here, or that of a call which uses it on another thread.
        self._producer = [Owned(handle, kept.kael_token_ring_finish, "producer's side of the token ring")]
        self._consumer = [Owned(handle, kept.kael_token_ring_free, "token ring")]
        check_status(kept.kael_token_ring_create(max(capacity, 1), ctypes.byref(handle)))
        self._descriptor = int(kept.kael_token_ring_descriptor(handle))
        self._records = (_signatures.TokenRecord * _BATCH)()

    @property
    def max_tokens(self) -> int:
        """How many tokens there is room for."""
        return self._capacity

    def fileno(self) -> int:
        """A descriptor that is readable when there is something to drain. The ring's own: watch it, never
        close it.
        """
        self._consumer_share()
        return self._descriptor

    def drain(self) -> tuple[list[tuple[int, int]], bool]:
        """Consumer: what has arrived since the last call, as (token, nanoseconds of the monotonic clock at
        which it was made) pairs, and whether that was the end.
        """
        share = self._consumer_share()
        share.refuse_after_fork()
        handle = share.pointer()
        taken: list[tuple[int, int]] = []
        count, done = ctypes.c_int64(), ctypes.c_uint8()
        while True:
            check_status(
                self._functions.kael_token_ring_drain(
                    handle, self._records, _BATCH, ctypes.byref(count), ctypes.byref(done)
                )
            )
            taken += [(record.token, record.nanoseconds) for record in self._records[: count.value]]
            if count.value < _BATCH:
                return taken, bool(done.value)

    def stop(self) -> None:
        """Consumer: asks the generation to end, within one token, or one layer of the prompt. Nothing after
        :meth:`close`."""
        try:
            share = self._consumer_share()
        except Error:
            return
        share.refuse_after_fork()
        self._functions.kael_token_ring_stop(share.pointer())

    def finish(self) -> None:
        """Producer: the generation has ended; wakes the consumer. During a generation it takes effect at that
        one's end. A second call does nothing.
        """
        self._producer.clear()

    def close(self) -> None:
        """Consumer: gives the ring up. Stop watching the descriptor first. A second call does nothing."""
        self._consumer.clear()

    def _producer_share(self) -> Owned:
        """The producer's share. Whoever uses its pointer holds on to it for as long, and no longer."""
        try:
            share = self._producer[0]
        except IndexError:
            raise Error("the token ring was finished already: make one for each generation") from None
        share.refuse_after_fork()
        return share

    def _consumer_share(self) -> Owned:
        try:
            return self._consumer[0]
        except IndexError:
            raise Error("the token ring is closed") from None
