"""The sockets on which the program listens, and what they are called."""

from __future__ import annotations

import errno
import socket

from tornado.netutil import bind_sockets

from .arguments import Failure


def listen(host: str, port: int) -> list[socket.socket]:
    """Raises :class:`Failure`."""
    try:
        return bind_sockets(port, host)
    except UnicodeError:
        raise Failure(f"{host!r} is no host name, expected an address of this machine") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise Failure(
                f"port {port} of {host} is in use, give another one with --port, or 0 for a free one"
            ) from None
        if error.errno in (errno.EACCES, errno.EPERM):
            raise Failure(f"port {port} of {host} is not permitted, expected one from 1024 on") from None
        raise Failure(
            f"cannot listen on {host}: {error.strerror}, expected an address of this machine"
        ) from None


def url_of(listening: socket.socket, scheme: str = "http") -> str:
    """By which this machine reaches it."""
    host, port = listening.getsockname()[:2]
    if host in ("0.0.0.0", "::"):  # noqa: S104 - everywhere; this machine is one place of it
        host = "127.0.0.1" if listening.family == socket.AF_INET else "::1"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"
