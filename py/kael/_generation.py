"""One generation: its request, the three ways of running it, and what ends it from outside.

- ``with_callback``: the library calls a Python callable for each token.
- ``into_ring``: tokens go to a native ring; no Python runs on the generating thread.
- ``silently``: nobody listens; a private ring carries the request to stop.
"""

from __future__ import annotations

import _thread
import atexit
import contextlib
import ctypes
import enum
import threading
import time
import types
import weakref
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from kael import _checks, _signatures
from kael._errors import Error, ErrorCode
from kael._library import check_status, native
from kael._logprobs import Logprobs
from kael._ring import TokenRing
from kael._sampling import Sampling

# Room for the tokens is reserved before the first; 128 MiB of it at most.
MAX_TOKENS = 2**24

# Tokens that are guessed at once: what the library allows.
MAX_GUESSES = 64

# What an exit of the interpreter grants a generation that another thread runs, to end at its next token.
_EXIT_SECONDS = 10.0

# A thread that did not begin by then never will.
_START_SECONDS = 10.0

# A signal that comes just before the main thread falls asleep does not wake it: it looks up this often.
_LOOK_SECONDS = 0.05


class FinishReason(enum.StrEnum):
    """Why a generation ended."""

    LENGTH = "length"  #: max_tokens were generated
    STOP_TOKEN = "stop_token"  # noqa: S105  #: the last token is one of stop_tokens
    CALLBACK = "callback"  #: on_token answered with something false
    STOPPED = "stopped"  #: the ring was stopped


FinishReason.__module__ = "kael"

# kael_finish_reason, in order.
_FINISH_REASONS = (FinishReason.LENGTH, FinishReason.STOP_TOKEN, FinishReason.CALLBACK, FinishReason.STOPPED)


@dataclass(frozen=True, slots=True)
class Generation:
    """What a generation gave."""

    tokens: list[int]
    finish_reason: FinishReason
    prompt_seconds: float  #: from the call to the first token
    decode_seconds: float  #: from the first token to the end
    seed: int  #: the one used
    cached_tokens: int = 0  #: of the prompt, for which ``reuse_prefix`` saved the work
    guessed_tokens: int = 0  #: new ones that ``speculate`` guessed right, and that took no pass


Generation.__module__ = "kael"


class Request:
    """The arguments of a generation, checked."""

    def __init__(
        self,
        ids: Any,
        max_tokens: int,
        sampling: Sampling,
        seed: int | None = None,
        stop_tokens: Iterable[int] = (),
        logprobs: Logprobs | None = None,
        use_cache: bool = True,
        reuse_prefix: bool = True,
        speculate: int = 0,
    ) -> None:
        self.ids = _checks.token_ids("ids", ids)
        self.max_tokens = _checks.integer("max_tokens", max_tokens, 0, MAX_TOKENS)
        self.stop_tokens = _checks.token_ids("stop_tokens", stop_tokens)
        options = _signatures.sized(_signatures.GenerateOptions)
        native().kept.kael_generate_options_default(ctypes.byref(options))
        options.max_tokens = self.max_tokens
        sampling.write_to(options)
        options.use_cache = _checks.flag("use_cache", use_cache)
        options.reuse_prefix = _checks.flag("reuse_prefix", reuse_prefix)
        options.speculate = _checks.integer("speculate", speculate, 0, MAX_GUESSES)
        options.has_seed = seed is not None
        if seed is not None:
            options.seed = _checks.integer("seed", seed, 0, _checks.UINT64_MAX)
        options.stop_tokens = self.stop_tokens.ctypes.data_as(_signatures.Int64Pointer)
        options.stop_token_count = len(self.stop_tokens)
        self.logprobs = logprobs  # kept alive for the library
        if logprobs is not None:
            if not isinstance(logprobs, Logprobs):
                raise TypeError(f"logprobs must be a kael.Logprobs, not {type(logprobs).__name__}")
            logprobs._write_to(options, len(self.ids), self.max_tokens)
        self.options = options


class Running:
    """What a model is generating at the moment, so that another thread can end it. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()  # held for moments: a stop must not meet a ring that is being freed
        self._stop: Callable[[], None] | None = None
        # Held while a generation runs. Not threading.Event: an interrupt in its methods, which are Python,
        # may leave its own lock held for good.
        self._busy = threading.Lock()
        self._ended_by: str | None = None
        _everything_running.add(self)

    def begin(self, stop: Callable[[], None]) -> None:
        """A generation is about to run; ``stop`` asks it to end."""
        with self._lock:
            self._refuse_if_ended()
            self._busy.acquire(blocking=False)
            self._stop = stop

    def over(self) -> None:
        """The generation has returned. Raises if it was ended from outside."""
        with self._lock:
            self._stop = None
            if self._busy.locked():
                self._busy.release()
            self._refuse_if_ended()

    def end(self, reason: str) -> None:
        """Asks the generation, if there is one, to end at its next token, and lets no other begin."""
        with self._lock:
            self._ended_by = reason
            if self._stop is not None:
                self._stop()

    def _refuse_if_ended(self) -> None:
        if self._ended_by is not None:
            raise Error(f"{self._ended_by} during the generation")

    @property
    def is_idle(self) -> bool:
        """Whether nothing is being generated at the moment."""
        return not self._busy.locked()

    def wait(self, seconds: float) -> None:
        """Returns when no generation runs, or after so long. Only after :meth:`end`."""
        if self._busy.acquire(timeout=seconds):
            self._busy.release()


_everything_running: weakref.WeakSet[Running] = weakref.WeakSet()


@atexit.register
def _end_everything() -> None:
    """A daemon thread must not be inside the library when the interpreter is taken down: it would be ended by
    unwinding through frames that refuse it, which aborts the process.
    """
    generations = list(_everything_running)
    for running in generations:
        running.end("the interpreter exited")
    for running in generations:
        running.wait(_EXIT_SECONDS)


def with_callback(
    model: Any, request: Request, on_token: Callable[[int], object], running: Running
) -> Generation:
    """Calls ``on_token`` for each token; an exception in it is raised here, unchanged."""
    verdict = _Verdict(on_token)
    answers = verdict.answers()
    next(answers)
    answer = answers.send  # kept alive here for as long as the library may call it
    options = request.options
    options.on_token = ctypes.cast(_call, _signatures.TokenCallback)
    options.user_data = id(answer)
    try:
        running.begin(verdict.end)
        status, result = _run(model, request)
    finally:
        answers.close()
        running.over()
    failure, verdict.failure = verdict.failure, None
    if failure is not None:
        try:
            raise failure
        finally:
            del failure  # its traceback holds this frame: no cycle
    check_status(status)
    if result.finish_reason is FinishReason.CALLBACK and not verdict.stopped:
        raise KeyboardInterrupt  # a second interrupt while the first was noted; ctypes answered with 0
    return result


# The one callback that the library ever sees: calls user_data, the `send` of a waiting generator, with the
# token. It is C code itself. Were it a Python function, an interrupt that is pending when it is entered would
# be raised before its first line, out of reach of its try, and ctypes would print and drop it; a generator is
# resumed inside its try. And since it is made once, no closure is ever freed while C may hold it, or shared
# with a child made by fork.
_call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.py_object, ctypes.c_int64)(types.BuiltinMethodType.__call__)


class _Verdict:
    """Turns what ``on_token`` returns, or raises, into the answers that the library understands."""

    def __init__(self, on_token: Callable[[int], object]) -> None:
        self._on_token = on_token
        self._ended = False
        self._calling = False
        self.stopped = False
        self.failure: BaseException | None = None

    def end(self) -> None:
        """Makes the next answer a stop. Any thread."""
        self._ended = True

    def answers(self) -> Generator[int | None, int, None]:
        """Takes each token by ``send`` and yields the answer to it."""
        answer: int | None = None
        try:
            while True:
                token = yield answer
                self._calling = True
                goes_on = not self._ended and self._wishes_more(token)
                self._calling = False
                self.stopped = not goes_on
                answer = _signatures.TOKEN_CONTINUE if goes_on else _signatures.TOKEN_STOP
        except BaseException as error:
            if isinstance(error, GeneratorExit) and not self._calling:
                return  # closed, not raised by on_token
            self.failure = error
            yield _signatures.TOKEN_FAILED

    def _wishes_more(self, token: int) -> bool:
        wish = self._on_token(token)
        return wish is None or bool(wish)


def into_ring(model: Any, request: Request, ring: TokenRing, running: Running) -> Generation:
    """Sends each token to ``ring``, which can also stop the generation."""
    share = ring._producer_share()
    try:
        library = native()
        options = request.options
        options.on_token = ctypes.cast(library.kept.kael_token_ring_push, _signatures.TokenCallback)
        return _until_stopped(model, request, share.pointer(), running)
    finally:
        del share  # an exception keeps this frame, and must not put the end of the ring off


def silently(model: Any, request: Request, running: Running) -> Generation:
    """Runs with nobody listening."""
    ring = TokenRing(0)
    try:
        return _until_stopped(model, request, ring._producer_share().pointer(), running)
    finally:
        ring.finish()
        ring.close()


def _until_stopped(model: Any, request: Request, ring: Any, running: Running) -> Generation:
    library = native()
    options = request.options
    options.should_stop = ctypes.cast(library.kept.kael_token_ring_stopping, _signatures.StopCallback)
    options.user_data = ctypes.cast(ring, ctypes.c_void_p)

    def stop() -> None:
        library.kept.kael_token_ring_stop(ring)

    def run() -> Generation:
        status, result = _run(model, request)
        check_status(status)
        return result

    try:
        running.begin(stop)
        return _interruptibly(run, stop)
    finally:
        running.over()


def _interruptibly(run: Callable[[], Generation], stop: Callable[[], None]) -> Generation:
    """Lets Ctrl-C end a call of the library.

    Python sees signals on the main thread only, and only between its own instructions: a long foreign call
    there would hold Ctrl-C back until its end. So the main thread waits while another one makes the call.
    """
    if threading.current_thread() is not threading.main_thread():
        return run()
    outcome: list[Generation | BaseException] = []
    # Held until there is an outcome. Not threading.Event: see Running.
    unfinished = threading.Lock()
    unfinished.acquire()

    # Who has it makes the call, or nobody does. A thread can end before its first line, for want of memory.
    claim = threading.Lock()

    def work() -> None:
        if not claim.acquire(blocking=False):
            return
        try:
            outcome.append(run())
        except BaseException as error:
            outcome.append(error)
        finally:
            unfinished.release()

    # Not threading.Thread: an interrupt in its start or join leaves a thread that runs and seems to be over.
    started = given_up = False
    try:
        _thread.start_new_thread(work, ())
        started = True
        deadline = time.monotonic() + _START_SECONDS
        while not outcome and not given_up:
            unfinished.acquire(timeout=_LOOK_SECONDS)
            if not claim.locked() and time.monotonic() > deadline:
                given_up = claim.acquire(blocking=False)
    except BaseException as error:
        if not started and isinstance(error, RuntimeError):
            raise Error(
                f"no thread could be started for the generation: {error}", ErrorCode.OUT_OF_MEMORY
            ) from None
        stop()
        given_up = given_up or claim.acquire(blocking=False)
        while (
            not outcome and not given_up
        ):  # however often Ctrl-C is pressed: the thread still uses the model
            with contextlib.suppress(BaseException):
                unfinished.acquire(timeout=_LOOK_SECONDS)
        raise
    if given_up:
        raise Error(
            f"the thread for the generation did not begin within {_START_SECONDS:g} s: there may be no "
            "memory for it",
            ErrorCode.OUT_OF_MEMORY,
        )
    result = outcome[0]
    if isinstance(result, BaseException):
        raise result
    return result


def _run(model: Any, request: Request) -> tuple[int, Generation]:
    tokens = np.empty(request.max_tokens, np.int64)
    result = _signatures.sized(_signatures.GenerateResult)
    status = native().released.kael_gpt_generate(
        model,
        request.ids.ctypes.data_as(_signatures.Int64Pointer),
        len(request.ids),
        ctypes.byref(request.options),
        tokens.ctypes.data_as(_signatures.Int64Pointer),
        ctypes.byref(result),
    )
    generation = Generation(
        tokens=tokens[: result.count].tolist(),
        finish_reason=_FINISH_REASONS[result.finish_reason],
        prompt_seconds=result.prompt_seconds,
        decode_seconds=result.decode_seconds,
        seed=result.seed,
        cached_tokens=result.cached_tokens,
        guessed_tokens=result.guessed_tokens,
    )
    return status, generation
