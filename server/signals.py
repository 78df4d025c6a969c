"""What SIGTERM and SIGINT do, before the server runs and then."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable

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


def watch(first: Callable[[], object]) -> None:
    """From here on a signal calls ``first``, on a thread, and a second one ends the process with 1. Main
    thread.

    Python's own handlers run between two instructions of the main thread, and the loop's in one of its turns:
    that thread may be what hangs.
    """
    reading, writing = os.pipe()
    os.set_blocking(writing, False)

    def work() -> None:
        os.read(reading, 1)
        first()
        os.read(reading, 1)
        os._exit(1)

    threading.Thread(target=work, name="kael-signals", daemon=True).start()
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in ENDING:
        signal.signal(number, lambda *_: None)
