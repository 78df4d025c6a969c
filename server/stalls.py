"""Clients that take nothing of their answer."""

from __future__ import annotations

import asyncio
from typing import Any

from tornado.iostream import IOStream


def let_go_of_stalled(stream: IOStream, sent: asyncio.Future[Any], seconds: float) -> None:
    """Closes ``stream`` unless ``sent``, which is done once the system has the end of an answer, is so in
    time. Loop."""
    if not sent.done():
        timer = asyncio.get_running_loop().call_later(seconds, stream.close)
        sent.add_done_callback(lambda _: timer.cancel())
