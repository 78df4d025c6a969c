"""A process that serves an application until it is told to end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable

from tornado.httpserver import HTTPServer

from .app import KaelApplication
from .request import MAX_BODY_BYTES

log = logging.getLogger(__name__)

SHUTDOWN_SECONDS = 30.0

# How long a connection may be idle, or take to send its headers; and how long to send a body.
IDLE_SECONDS = 75.0
BODY_SECONDS = 30.0
MAX_HEADER_BYTES = 16 * 1024

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


async def serve(app: KaelApplication, sockets: list[socket.socket], when_ready: Callable[[], None]) -> bool:
    """Serves on listening sockets until SIGTERM or SIGINT, then ends what runs. False when the worker did not
    come back in SHUTDOWN_SECONDS. A second signal ends the process at once, with 1."""
    server = start(app, sockets)
    ending = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        loop.add_signal_handler(number, ending.set)
    when_ready()
    await ending.wait()
    for number in _SIGNALS:
        loop.remove_signal_handler(number)
        # Not the loop's: it may be what hangs.
        signal.signal(number, lambda *_: os._exit(1))
    log.info("shutting down")
    return await stop(server, app, SHUTDOWN_SECONDS)


def start(app: KaelApplication, sockets: list[socket.socket]) -> HTTPServer:
    """Begins to serve on the running loop."""
    server = HTTPServer(
        app,
        idle_connection_timeout=IDLE_SECONDS,
        body_timeout=BODY_SECONDS,
        max_header_size=MAX_HEADER_BYTES,
        max_body_size=MAX_BODY_BYTES,  # for the routes that read none; POST /generate has its own
    )
    server.add_sockets(sockets)
    return server


async def stop(server: HTTPServer, app: KaelApplication, seconds: float) -> bool:
    """Accepts nothing new, lets every request have its answer, then closes the connections."""
    server.stop()
    ended = await app.drain(seconds)
    if not ended:
        log.error("the generation did not end within %.0f s: giving up on it", seconds)
    await server.close_all_connections()
    app.close()
    return ended
