"""A process that serves an application until it is told to end."""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import ssl
from collections.abc import Callable
from typing import Any

from tornado.httpserver import HTTPServer
from tornado.ioloop import IOLoop

from . import signals, systemd
from .app import KaelApplication

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 30.0

MAX_HEADER_BYTES = 16 * 1024

# How long no connection is accepted after the system had no descriptor or memory for one.
BREATH_SECONDS = 1.0
_NO_RESOURCES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_NOTHING = 0  # as IOLoop.READ


async def serve(
    app: KaelApplication,
    sockets: list[socket.socket],
    when_ready: Callable[[], None],
    tls: ssl.SSLContext | None = None,
) -> bool:
    """Serves on listening sockets until SIGTERM or SIGINT, then ends what runs. False when the worker did not
    come back in SHUTDOWN_SECONDS. A second signal ends the process at once, with 1."""
    server = start(app, sockets, tls)
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals.watch(lambda: loop.call_soon_threadsafe(ending.set))
    when_ready()
    systemd.notify("READY=1")
    watchdog = asyncio.create_task(_feed_watchdog())
    await ending.wait()
    log.info("shutting down")
    systemd.notify("STOPPING=1")
    watchdog.cancel()
    return await stop(server, app, SHUTDOWN_SECONDS)


async def _feed_watchdog() -> None:
    """Shows systemd that the loop turns."""
    seconds = systemd.watchdog_seconds()
    while seconds is not None:
        systemd.notify("WATCHDOG=1")
        await asyncio.sleep(seconds / 3)


def start(
    app: KaelApplication, sockets: list[socket.socket], tls: ssl.SSLContext | None = None
) -> HTTPServer:
    """Begins to serve on the running loop."""
    settings = app.server_settings
    server = HTTPServer(
        app,
        ssl_options=tls,
        idle_connection_timeout=settings.idle_seconds,
        body_timeout=settings.body_seconds,
        max_header_size=MAX_HEADER_BYTES,
        max_body_size=settings.max_body_bytes,  # for the routes that read none; the others have their own
    )
    server.add_sockets(sockets)
    asyncio.get_running_loop().set_exception_handler(_Breather(sockets))
    return server


class _Breather:
    """The loop's exception handler. When the system has no descriptor for a new connection, the listening
    socket stays readable, and Tornado would fail again on every turn of the loop: it is left alone for a
    while instead, in which the connections that are there are served."""

    def __init__(self, sockets: list[socket.socket]) -> None:
        self._sockets = sockets
        self._resting = False

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if not (isinstance(error, OSError) and error.errno in _NO_RESOURCES):
            loop.default_exception_handler(context)
            return
        if self._resting:
            return
        self._resting = True
        log.warning("no new connections for %.0f s: %s", BREATH_SECONDS, error.strerror)
        self._watch(_NOTHING)
        loop.call_later(BREATH_SECONDS, self._go_on)

    def _go_on(self) -> None:
        self._resting = False
        self._watch(IOLoop.READ)

    def _watch(self, events: int) -> None:
        for listening in self._sockets:
            if listening.fileno() != -1:  # else a shutdown has closed it
                IOLoop.current().update_handler(listening, events)


async def stop(server: HTTPServer, app: KaelApplication, seconds: float) -> bool:
    """Accepts nothing new, lets every request have its answer, then closes the connections."""
    server.stop()
    ended = await app.drain(seconds)
    if not ended:
        log.error("the generation did not end within %.0f s: giving up on it", seconds)
    await server.close_all_connections()
    app.close()
    return ended
