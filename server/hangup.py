"""Notices a client that leaves in the middle of its request.

Tornado stops reading from a connection as soon as a byte has come that it has no use for yet, and then sees
no end of the connection either: a line end behind the body, or a pipelined request, would hide that the
client is gone. One epoll object for the whole server, which the loop watches like a socket, sees every FIN
and RST, whatever stands unread before it.

Where there is no epoll (macOS), Tornado's own sight has to do.
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import fcntl
import select
import termios

from tornado.iostream import IOStream

# With more than this unread behind a running request, a FIN can be held back by a full receive window, where
# nothing can see it.
MAX_UNREAD_BYTES = 64 * 1024


class HangupWatch:
    """Closes the stream of a client that has left, so that Tornado calls ``on_connection_close``. Loop."""

    def __init__(self) -> None:
        self._streams: dict[int, IOStream] = {}
        self._epoll = select.epoll() if hasattr(select, "epoll") else None
        if self._epoll is not None:
            asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._on_events, self._epoll)

    def watch(self, stream: IOStream) -> None:
        """From now to ``forget``, which the caller owes. A client that has left already is noticed too."""
        if self._epoll is None or stream.socket is None:
            return
        descriptor = stream.socket.fileno()
        # Edge-triggered: unread bytes are reported as they come, not again and again.
        self._epoll.register(descriptor, select.EPOLLRDHUP | select.EPOLLIN | select.EPOLLET)
        self._streams[descriptor] = stream

    def forget(self, stream: IOStream) -> None:
        """Does nothing for a stream that is not watched."""
        if stream.socket is None:
            # Closed: epoll has dropped the descriptor, whose number may be another client's by now.
            self._streams = {number: other for number, other in self._streams.items() if other is not stream}
            return
        descriptor = stream.socket.fileno()
        if self._streams.get(descriptor) is stream:
            del self._streams[descriptor]
            if self._epoll is not None:
                with contextlib.suppress(OSError):  # closed in the meantime, which makes epoll forget it
                    self._epoll.unregister(descriptor)

    def close(self) -> None:
        if self._epoll is not None:
            asyncio.get_running_loop().remove_reader(self._epoll.fileno())
            self._epoll.close()
            self._epoll = None

    def _on_events(self, epoll: select.epoll) -> None:
        for descriptor, events in epoll.poll(0):
            stream = self._streams.get(descriptor)
            if stream is None or stream.socket is None:
                continue
            left = events & (select.EPOLLRDHUP | select.EPOLLHUP | select.EPOLLERR)
            if left or _unread_bytes(descriptor) > MAX_UNREAD_BYTES:
                self.forget(stream)
                stream.close()


def _unread_bytes(descriptor: int) -> int:
    count = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, count)
    return count[0]
