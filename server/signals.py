"""What SIGTERM and SIGINT do until the server runs and has its own handlers."""

from __future__ import annotations

import os
import signal

ENDING = (signal.SIGTERM, signal.SIGINT)


def end_the_process() -> None:
    """Both end the process, with 0, wherever it is: an exception would come out of an import, which others
    take for a missing package, or of a finalizer, where it is dropped. So do those that came before:
    scripts/serve blocks them until here.
    """
    for number in ENDING:
        signal.signal(number, lambda *_: os._exit(0))
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
