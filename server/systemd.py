"""Tells systemd how the program is, where it asks: the protocol of sd_notify(3)."""

from __future__ import annotations

import logging
import os
import socket

log = logging.getLogger(__name__)

_MICROSECONDS = 1e-6


def notify(state: str) -> None:
    """Sends a line such as ``READY=1``."""
    address = os.environ.get("NOTIFY_SOCKET")
    if not address:
        return
    if address.startswith("@"):  # of Linux's abstract namespace
        address = "\0" + address[1:]
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as client:
            client.setblocking(False)
            client.sendto(state.encode(), address)
    except OSError as error:
        log.warning("systemd does not take %s: %s", state, error.strerror)


def watchdog_seconds() -> float | None:
    """After how long without ``WATCHDOG=1`` systemd takes the program for hung. None: it does not."""
    text = os.environ.get("WATCHDOG_USEC", "")
    if not text.isdigit() or os.environ.get("WATCHDOG_PID", str(os.getpid())) != str(os.getpid()):
        return None
    return int(text) * _MICROSECONDS or None
