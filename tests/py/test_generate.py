"""model.generate: callbacks, interrupts, threads, forks, ends."""

from __future__ import annotations

import gc
import os
import select
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

import kael
from kael import _generation


def in_a_process(script, **environment):
    """Runs a script in a fresh interpreter; it must end well, with nothing on standard error."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment},
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done


forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork for a process to lose by")
# Python 3.12 and newer warn of every fork of a process with threads; ThreadSanitizer allows no new threads
# after one unless asked.
FORKS = {
    "PYTHONWARNINGS": "ignore::DeprecationWarning",
    "TSAN_OPTIONS": f"{os.environ.get('TSAN_OPTIONS', '')}:die_after_fork=0",
}


def wait_for_a_generation(model):
    """Returns when another thread is inside ``model.generate``."""
    deadline = time.monotonic() + 60
    while model._running.is_idle:
        assert time.monotonic() < deadline, "no generation began"
        time.sleep(0.001)


MODEL = "import kael\nmodel = kael.GPT(vocab_size=256, max_positions=64, layers=1, heads=2, dimension=16)\n"


CONTAINS_ITSELF = [1, 2]
CONTAINS_ITSELF[:] = [CONTAINS_ITSELF, CONTAINS_ITSELF]


# ---- Results


def test_generate_returns_as_many_tokens_as_asked(tiny):
    tokens = tiny.generate([1, 2, 3], 10)
    assert len(tokens) == 10
    assert all(type(token) is int and 0 <= token < 256 for token in tokens)


def test_the_same_seed_gives_the_same_tokens_from_every_form_of_ids(tiny):
    expected = tiny.generate([1, 2, 3], 20, seed=5)
    for ids in ((1, 2, 3), np.array([1, 2, 3], np.int32), kael.tensor([1, 2, 3]), iter([1, 2, 3])):
        assert tiny.generate(ids, 20, seed=5) == expected
    assert tiny.generate([1, 2, 3], 20, seed=6) != expected


def test_no_tokens_asked_no_tokens_made(tiny):  # KB109
    assert tiny.generate([1], 0) == []


def test_a_stop_token_ends_the_generation_and_is_returned(tiny):
    tokens = tiny.generate([1], 20, seed=3)
    stop = tokens[7]
    stopped = tiny.generate([1], 20, seed=3, stop_tokens={stop})
    assert stopped == tokens[: tokens.index(stop) + 1]


def test_the_announced_tokens_are_the_returned_ones(tiny):
    announced = []
    returned = tiny.generate([1], 20, on_token=announced.append)
    assert announced == returned
    assert all(type(token) is int for token in announced)


# ---- Callbacks (names as in the original server's test list)


@pytest.mark.parametrize("answer", [None, True, 1, "yes", [0], object()])
def test_truthy_or_missing_callback_answers_continue(tiny, answer):
    assert len(tiny.generate([1], 8, on_token=lambda token: answer)) == 8


@pytest.mark.parametrize("answer", [False, 0, "", [], 0.0, np.False_])
def test_falsy_callback_answers_stop(tiny, answer):
    assert len(tiny.generate([1], 8, on_token=lambda token: answer)) == 1


class Custom(BaseException):
    pass


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), KeyboardInterrupt(), SystemExit(3), StopIteration(1), GeneratorExit(), Custom()],
)
def test_python_callback_errors_reach_the_caller(tiny, error, capfd):  # KB080, T23
    seen = []

    def on_token(token):
        seen.append(token)
        if len(seen) == 3:
            raise error

    with pytest.raises(type(error)) as caught:
        tiny.generate([1], 8, on_token=on_token)
    assert caught.value is error
    assert len(seen) == 3
    assert capfd.readouterr() == ("", "")
    assert len(tiny.generate([1], 4)) == 4  # the model is as usable as before


def test_an_answer_that_cannot_be_judged_is_an_error_of_the_callback(tiny):
    with pytest.raises(ValueError, match="ambiguous"):
        tiny.generate([1], 8, on_token=lambda token: np.zeros(2))


def test_callbacks_survive_a_collection_of_garbage(tiny):  # KB079, B133
    def on_token(token):
        gc.collect()

    assert len(tiny.generate([1], 20, on_token=on_token)) == 20


def test_a_raising_callback_leaves_no_cycle_of_references(tiny):
    import weakref

    class Held:
        pass

    held = Held()
    alive = weakref.ref(held)

    def on_token(token, held=held):
        raise ValueError

    gc.disable()
    try:
        with pytest.raises(ValueError):
            tiny.generate([1], 8, on_token=on_token)
        del held, on_token
        assert alive() is None
    finally:
        gc.enable()


def test_on_token_must_be_callable(tiny):
    with pytest.raises(TypeError, match="on_token must be callable, not int"):
        tiny.generate([1], 1, on_token=3)


def test_calls_from_on_token_into_the_same_model_are_refused(tiny):
    for call in (
        lambda: tiny([1]),
        lambda: tiny.generate([1], 1),
        lambda: tiny.activations([1]),
        tiny.close,
    ):
        with pytest.raises(kael.Error, match="its on_token must not"):
            tiny.generate([1], 2, on_token=lambda token, call=call: call())
    assert len(tiny.generate([1], 2)) == 2


def test_calls_from_on_token_into_another_model_are_fine(tiny):
    other = kael.GPT(vocab_size=256, max_positions=64, layers=1, heads=2, dimension=16)
    inner = []
    tiny.generate([1], 2, on_token=lambda token: inner.append(other.generate([token], 2)))
    assert [len(tokens) for tokens in inner] == [2, 2]


# ---- Arguments (T22: what ctypes would wrap silently)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_tokens": 2**40}, "max_tokens is 1099511627776, expected 0 to"),
        ({"max_tokens": 2**32 + 7}, "max_tokens is"),
        ({"max_tokens": -1}, "max_tokens is -1"),
        ({"top_k": -1}, "top_k"),
        ({"top_k": 2**70}, "top_k"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**64}, "seed is"),
        ({"seed": 10**5000}, "seed is a number of 16610 bits"),
        ({"temperature": float("nan")}, "temperature is nan"),
        ({"temperature": float("inf")}, "temperature is inf"),
        ({"temperature": 10**400}, "temperature is inf"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": 1e-40}, "temperature"),
        ({"ids": []}, "at least one|empty|no tokens"),
        ({"ids": [256]}, "256"),
        ({"ids": [-1]}, "-1"),
        ({"ids": [2**70]}, "outside the range of int64"),
        ({"ids": np.array([2**63], np.uint64)}, "outside the range of int64"),
        ({"ids": [[1, 2]]}, "2 dimensions"),
        ({"ids": [[1], [1, 2]]}, "different lengths"),
        ({"ids": CONTAINS_ITSELF}, "contains itself"),
        ({"stop_tokens": [1, -1]}, "the stop token -1, expected 0 to 255"),
        ({"stop_tokens": [256]}, "the stop token 256, expected 0 to 255"),
        ({"stop_tokens": [2**64]}, "stop_tokens holds .*outside the range"),
    ],
)
def test_numbers_out_of_range_are_errors(tiny, arguments, message):
    with pytest.raises(kael.Error, match=message) as caught:
        tiny.generate(**{"ids": [1], "max_tokens": 1, **arguments})
    assert caught.value.code is kael.ErrorCode.INVALID_ARGUMENT
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_tokens": True}, "max_tokens must be an integer, not True"),
        ({"max_tokens": 1.0}, "max_tokens must be an integer, not float"),
        ({"max_tokens": "1"}, "max_tokens must be an integer, not str"),
        ({"max_tokens": None}, "max_tokens must be an integer, not None"),
        ({"top_k": np.True_}, "top_k must be an integer"),
        ({"seed": 1.5}, "seed must be an integer"),
        ({"temperature": True}, "temperature must be a number, not True"),
        ({"temperature": "1"}, "temperature must be a number, not str"),
        ({"temperature": 1j}, "temperature must be a number, not complex"),
        ({"ids": "text"}, "ids must be token ids, not str: encode the text first"),
        ({"ids": b"text"}, "ids must be token ids, not bytes"),
        ({"ids": [1, True]}, "ids must be integers, not True"),
        ({"ids": [1.0]}, "ids must be integers, not float64"),
        ({"ids": 3}, "ids must be a sequence of token ids, not int"),
        ({"ids": [None]}, "ids must be integers"),
        ({"stop_tokens": 3}, "stop_tokens must be a sequence"),
        ({"use_cache": 1}, "use_cache must be True or False"),
    ],
)
def test_wrong_types_are_type_errors(tiny, arguments, message):
    with pytest.raises(TypeError, match=message):
        tiny.generate(**{"ids": [1], "max_tokens": 1, **arguments})


def test_numpy_numbers_are_numbers(tiny):
    expected = tiny.generate([1], 3, temperature=0.5, top_k=4, seed=2)
    arguments = {"temperature": np.float32(0.5), "top_k": np.int8(4), "seed": np.uint64(2)}
    assert tiny.generate([np.int64(1)], np.int32(3), **arguments) == expected


# ---- Threads and the interpreter lock


def test_a_python_thread_makes_progress_while_a_generation_runs(big_enough, threads_restored):
    """The interpreter lock is free. Were it held, a pure Python thread would stand still for all of the
    call.
    """
    kael.set_num_threads(1)  # the other processor is for the Python thread
    longest_pause = 0.0
    running = True

    def turn():
        nonlocal longest_pause
        last = time.perf_counter()
        while running:
            now = time.perf_counter()
            longest_pause = max(longest_pause, now - last)
            last = now

    thread = threading.Thread(target=turn)
    thread.start()
    started = time.perf_counter()
    big_enough.generate([1], 290)  # past the context, where each token takes all others anew
    seconds = time.perf_counter() - started
    running = False
    thread.join()
    assert seconds > 0.05, "too quick to tell"
    assert longest_pause < seconds / 2


@pytest.fixture
def big_enough():
    """A model whose generation of some hundred tokens takes a while."""
    return kael.GPT(vocab_size=512, max_positions=256, layers=4, heads=4, dimension=256)


def test_a_second_thread_waits_for_the_model(tiny):
    """One call at a time: both generations come out as if they had run alone."""
    expected = [tiny.generate([1], 30, seed=seed) for seed in range(4)]
    results = [None] * 4

    def run(seed):
        results[seed] = tiny.generate([1], 30, seed=seed, on_token=lambda token: None)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == expected


def test_two_models_generate_at_the_same_time(tiny):
    """Neither waits for the other: each callback waits for a token of the other model."""
    other = kael.GPT(vocab_size=256, max_positions=64, layers=1, heads=2, dimension=16)
    barrier = threading.Barrier(2, timeout=60)
    threads = [
        threading.Thread(
            target=model.generate, args=([1], 5), kwargs={"on_token": lambda token: barrier.wait() + 1}
        )
        for model in (tiny, other)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not barrier.broken


# ---- The native way to an event loop


def drained(ring):
    """All tokens of a ring, to its end."""
    tokens, done = [], False
    while not done:
        assert select.select([ring], [], [], 60)[0], "the ring never woke its consumer"
        records, done = ring.drain()
        tokens += [token for token, _ in records]
    return tokens


def test_generate_into_sends_the_tokens_that_generate_returns(tiny):
    expected = tiny.generate([1], 40, seed=9)
    ring = kael.TokenRing(40)
    result = []

    def work():
        try:
            result.append(tiny.generate_into(ring, [1], 40, seed=9))
        finally:
            ring.finish()

    thread = threading.Thread(target=work)
    thread.start()
    assert drained(ring) == expected
    ring.close()
    thread.join()
    assert result[0].tokens == expected
    assert result[0].finish_reason is kael.FinishReason.LENGTH
    assert result[0].finish_reason == "length"
    assert result[0].seed == 9
    assert result[0].prompt_seconds > 0


def test_stopping_the_ring_ends_the_generation(big_enough):
    ring = kael.TokenRing(100_000)
    result = []
    thread = threading.Thread(target=lambda: result.append(big_enough.generate_into(ring, [1], 100_000)))
    thread.start()
    assert select.select([ring], [], [], 60)[0]
    ring.stop()
    ring.close()
    thread.join(60)
    assert not thread.is_alive()
    assert result[0].finish_reason is kael.FinishReason.STOPPED
    assert 1 <= len(result[0].tokens) < 100_000
    ring.finish()


def test_finishing_and_closing_a_ring_during_its_generation_waits_for_the_end():
    """In a process of its own: the ring was freed under the generating thread, which crashed."""
    done = in_a_process(
        """
        import gc, select, threading, kael
        model = kael.GPT(vocab_size=512, max_positions=256, layers=2, heads=4, dimension=64)
        for _ in range(5):
            ring, results = kael.TokenRing(2000), []
            thread = threading.Thread(target=lambda: results.append(model.generate_into(ring, [1], 2000)))
            thread.start()
            assert select.select([ring], [], [], 60)[0]
            ring.finish()
            assert not ring.drain()[1], "the end came before the end"
            ring.stop()
            ring.close()
            others = [kael.TokenRing(2000) for _ in range(100)]  # would take the memory over
            thread.join(60)
            assert results[0].finish_reason == "stopped", results
        print("alive")
        """
    )
    assert (done.returncode, done.stdout) == (0, "alive\n")


def test_a_failed_generation_does_not_put_the_end_of_its_ring_off(tiny):
    ring = kael.TokenRing(4)
    try:
        tiny.generate_into(ring, [10**6], 4)
    except kael.Error:
        ring.finish()  # while the exception holds the frames that used the ring
        assert ring.drain() == ([], True)
    else:
        pytest.fail("an id outside the vocabulary was taken")
    ring.close()


def test_a_ring_with_too_little_room_is_refused(tiny):
    with pytest.raises(kael.Error, match="room for 3 tokens, max_tokens is 4"):
        tiny.generate_into(kael.TokenRing(3), [1], 4)


def test_a_finished_ring_is_refused(tiny):
    ring = kael.TokenRing(4)
    ring.finish()
    with pytest.raises(kael.Error, match="make one for each generation"):
        tiny.generate_into(ring, [1], 4)
    with pytest.raises(TypeError, match=r"ring must be a kael\.TokenRing"):
        tiny.generate_into(None, [1], 4)


def test_a_thread_that_cannot_be_started_is_an_error(tiny, monkeypatch):
    def refuse(*_):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr("_thread.start_new_thread", refuse)
        with pytest.raises(kael.Error, match="no thread could be started for the generation") as caught:
            tiny.generate([1], 1)
    assert caught.value.code is kael.ErrorCode.OUT_OF_MEMORY
    assert len(tiny.generate([1], 1)) == 1


# ---- Ends


def test_close_frees_the_model_and_later_use_is_a_clear_error():
    with kael.GPT(vocab_size=256, max_positions=64, layers=1, heads=2, dimension=16) as model:
        assert len(model.generate([1], 2)) == 2
    for use in (lambda: model.generate([1], 1), lambda: model([1]), lambda: model.config):
        with pytest.raises(kael.Error, match="the model is closed"):
            use()
    model.close()
    assert repr(model) == "<kael.GPT, closed>"


@pytest.mark.parametrize("on_token", [None, lambda token: None])
def test_close_stops_a_generation_of_another_thread(big_enough, on_token):
    failures = []

    def work():
        try:
            big_enough.generate([1], 1_000_000, on_token=on_token)
        except kael.Error as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    wait_for_a_generation(big_enough)
    big_enough.close()
    thread.join(60)
    assert not thread.is_alive()
    assert "closed" in failures[0].message


LOOKS_AT_MODELS_THAT_ARE_CLOSED = """
import sys, threading
import kael

sys.setswitchinterval(1e-6)

def look(model):
    while True:
        try:
            model.config, model.parameter_count, repr(model)
        except kael.Error as error:
            assert error.message == "the model is closed"
            return

for _ in range(100):
    model = kael.GPT(10, 10, 1, 1, 4)
    threads = [threading.Thread(target=look, args=(model,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    model.close()
    for thread in threads:
        thread.join()
"""


def test_a_model_may_be_closed_while_other_threads_look_at_it():
    in_a_process(LOOKS_AT_MODELS_THAT_ARE_CLOSED)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
@pytest.mark.parametrize("listens", [False, True])
def test_ctrl_c_ends_a_generation_on_the_main_thread(listens):
    script = (
        MODEL
        + f"""
import os, signal, threading, time
threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
started = time.monotonic()
try:
    model.generate([1], 2**24, on_token={"lambda token: None" if listens else "None"})
except KeyboardInterrupt:
    assert time.monotonic() - started < 30
    print(len(model.generate([1], 3)))
"""
    )
    assert in_a_process(script).stdout == "3\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_ctrl_c_during_another_call_leaves_the_model_usable():
    script = (
        MODEL
        + """
import signal, threading
model = kael.GPT(vocab_size=256, max_positions=512, layers=4, heads=4, dimension=128)
ids = [list(range(256)) * 2] * 4
expected = model(ids).numpy().tobytes()

def interrupt():
    while model._user is None:
        pass
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

threading.Thread(target=interrupt).start()
try:
    model(ids)
except KeyboardInterrupt:
    print(model(ids).numpy().tobytes() == expected)
"""
    )
    assert in_a_process(script).stdout == "True\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_no_interrupt_is_lost_between_tokens():
    """An interrupt is most likely pending when a callback is entered: none may be printed and dropped
    there."""
    script = (
        MODEL
        + """
import signal

class Alarm(BaseException):
    pass

def alarm(*_):
    raise Alarm

signal.signal(signal.SIGALRM, alarm)
caught = 0
for attempt in range(300):
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.001 + attempt * 1e-5)
        model.generate([1], 2**24, on_token=[None, lambda token: None, [].append][attempt % 3])
    except Alarm:
        caught += 1
print(caught)
"""
    )
    assert in_a_process(script).stdout == "300\n"


@forks
def test_a_model_from_before_a_fork_is_a_clear_error_in_the_child():  # B134
    script = (
        MODEL
        + """
import os
tensor = kael.tensor([1.0, 2.0])
child = os.fork()
if child == 0:
    try:
        model.generate([1], 1)
    except kael.Error as error:
        assert "before this process was forked" in error.message, error.message
        assert tensor.tolist() == [1.0, 2.0]
        del tensor
        with kael.GPT(vocab_size=256, max_positions=64, layers=1, heads=2, dimension=16) as fresh:
            tokens = []
            assert fresh.generate([1], 5, on_token=tokens.append) == tokens
            assert len(fresh.generate([1], 5)) == 5
        model.close()
        del model
        os._exit(7)
    os._exit(1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
print(len(model.generate([1], 3)))
"""
    )
    assert in_a_process(script, **FORKS).stdout == "3\n"


@forks
def test_what_was_made_before_a_fork_is_freed_by_the_parent_alone():
    script = """
import os
from kael._handles import Owned
freed = []
owned = Owned("handle", freed.append, "thing")
child = os.fork()
if child == 0:
    owned.free()
    del owned
    os._exit(len(freed))
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
del owned
print(freed)
"""
    assert in_a_process(script, **FORKS).stdout == "['handle']\n"


@forks
def test_a_fork_during_a_generation_does_not_hang_the_child():
    script = (
        MODEL
        + """
import os, threading
started = threading.Event()
thread = threading.Thread(
    target=lambda: model.generate([1], 2000, on_token=lambda token: started.set()), daemon=True)
thread.start()
started.wait()
child = os.fork()
if child == 0:
    try:
        model([1])
    except kael.Error as error:
        os._exit(7 if "forked" in error.message else 1)
    os._exit(2)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
model.close()
thread.join()
"""
    )
    in_a_process(
        script.replace("thread.start()", "threading.excepthook = lambda _: None\nthread.start()"), **FORKS
    )


@pytest.mark.parametrize("on_token", ["None", "lambda token: None"])
def test_an_exit_of_the_interpreter_ends_the_generation_of_a_daemon_thread(on_token):
    script = (
        MODEL
        + f"""
import threading, time
threading.excepthook = lambda _: None
threading.Thread(
    target=lambda: model.generate([1], 2**24, on_token={on_token}), daemon=True).start()
while model._running.is_idle:
    time.sleep(0.001)
print("end")
"""
    )
    done = in_a_process(script)
    assert done.stdout == "end\n"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_interrupts_at_any_moment_leave_the_model_usable():
    """An interrupt inside a lock of Python's own making once left it held, and the next generation waited for
    ever.
    """
    script = (
        MODEL
        + """
import signal
armed = False
def interrupt(*_):
    if armed:
        raise KeyboardInterrupt
signal.signal(signal.SIGINT, interrupt)
while True:
    try:
        armed = True
        print("armed", flush=True)
        while True:
            model.generate([1], 1)
    except KeyboardInterrupt:
        armed = False
"""
    )
    delays = np.random.default_rng(1).uniform(0, 0.003, 400)
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # Python says there what it drops in a finalizer
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    ) as process:
        try:
            for delay in delays:
                assert process.stdout.readline() == b"armed\n"
                time.sleep(delay)  # to meet the generation at another moment each time
                for _ in range(100):
                    process.send_signal(signal.SIGINT)
                    if select.select([process.stdout], [], [], 0.2)[0]:
                        break  # else it was dropped in a finalizer
                else:
                    pytest.fail("no interrupt ends the generation any more")
        finally:
            process.kill()


def test_an_exit_ends_the_generation_into_a_ring():
    script = (
        MODEL
        + """
import select, threading
ring = kael.TokenRing(2**24)
threading.Thread(target=lambda: model.generate_into(ring, [1], 2**24), daemon=True).start()
threading.excepthook = lambda _: None
select.select([ring], [], [])  # until the first token
"""
    )
    in_a_process(script)


def test_a_prompt_of_integer_objects_is_a_prompt(tiny):
    assert tiny.generate(np.array([1, 2], object), 3, temperature=0) == tiny.generate(
        [1, 2], 3, temperature=0
    )
    with pytest.raises(kael.Error, match="outside the range of int64"):
        tiny.generate(np.array([1, 2**63], object), 3)
    with pytest.raises(TypeError, match="ids must be integers"):
        tiny.generate(np.array([1, True], object), 3)


@pytest.mark.parametrize("logits", [["a"], [1j], [True], [None], [{}], np.array([1 + 2j])])
def test_logits_that_are_no_numbers_are_a_type_error(logits):
    with pytest.raises(TypeError, match="logits must be numbers, not "):
        kael.sample_next(logits)


def test_logits_with_rows_of_different_lengths_are_refused():
    with pytest.raises(kael.Error, match="logits have rows of different lengths, expected one dimension"):
        kael.sample_next([[1.0], [1.0, 2.0]])


def test_a_model_that_was_never_made_is_closed():
    model = kael.GPT.__new__(kael.GPT)
    assert repr(model) == "<kael.GPT, closed>"
    with pytest.raises(kael.Error, match="the model is closed"):
        model.generate([1], 1)
    model.close()


def test_a_thread_that_never_begins_is_an_error_and_no_wait_for_ever(tiny, monkeypatch):
    # As when there is no memory for its first line.
    monkeypatch.setattr(_generation, "_START_SECONDS", 0.1)
    monkeypatch.setattr(_generation._thread, "start_new_thread", lambda *_: 1)
    with pytest.raises(kael.Error, match="did not begin within") as caught:
        tiny.generate([1], 1)
    assert caught.value.code == kael.ErrorCode.OUT_OF_MEMORY
    monkeypatch.undo()
    assert len(tiny.generate([1], 1)) == 1
