"""The GPT-2 functions of kael.h themselves: structs of another age, callbacks, nulls, failures."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator

import pytest

import kael
from kael import _signatures
from kael._library import last_error, native

KAEL_INVALID_ARGUMENT, KAEL_UNSUPPORTED, KAEL_CALLBACK_FAILED = 1, 5, 7
FAILED, STOP, CONTINUE = -1, 0, 1


class NewerOptions(ctypes.Structure):
    """The options of a later header."""

    _fields_ = [("known", _signatures.GenerateOptions), ("added", ctypes.c_int64)]


@pytest.fixture
def model() -> Iterator[object]:
    config = _signatures.sized(_signatures.GptConfig)
    native().kept.kael_gpt_config_default(ctypes.byref(config))
    config.vocab_size, config.max_positions = 50, 20
    config.layers, config.heads, config.dimension = 2, 2, 8
    kael.manual_seed(1)
    handle = ctypes.POINTER(_signatures.GptHandle)()
    assert native().released.kael_gpt_create(ctypes.byref(config), ctypes.byref(handle)) == 0
    yield handle
    native().released.kael_gpt_free(handle)


def options(max_tokens: int = 5) -> _signatures.GenerateOptions:
    defaults = _signatures.sized(_signatures.GenerateOptions)
    native().kept.kael_generate_options_default(ctypes.byref(defaults))
    defaults.max_tokens = max_tokens
    defaults.temperature = 0
    return defaults


def generate(model: object, given: object, room: int = 5) -> tuple[int, list[int], object]:
    """Status, the tokens counted by the result, the result."""
    ids = (ctypes.c_int64 * 3)(1, 2, 3)
    tokens = (ctypes.c_int64 * max(room, 1))()
    result = _signatures.sized(_signatures.GenerateResult)
    result.count = -99
    pointer = ctypes.cast(ctypes.byref(given), ctypes.POINTER(_signatures.GenerateOptions))
    status = native().released.kael_gpt_generate(model, ids, 3, pointer, tokens, ctypes.byref(result))
    return status, list(tokens[: max(result.count, 0)]), result


def with_callback(given: _signatures.GenerateOptions, answer: Callable[[int], int]) -> None:
    given.on_token = _signatures.TokenCallback(lambda _, token: answer(token))


def test_the_defaults_are_those_of_the_header():
    defaults = _signatures.GenerateOptions()
    native().kept.kael_generate_options_default(ctypes.byref(defaults))
    assert defaults.struct_size == ctypes.sizeof(_signatures.GenerateOptions)
    assert (defaults.max_tokens, defaults.temperature, defaults.top_k) == (64, 1.0, 0)
    assert (defaults.has_seed, defaults.use_cache) == (0, 1)
    native().kept.kael_generate_options_default(None)
    native().kept.kael_gpt_config_default(None)


def test_a_newer_caller_is_understood_as_long_as_it_asks_for_nothing_new(model):
    status, expected, _ = generate(model, options())
    assert status == 0
    newer = NewerOptions(options(), 0)
    newer.known.struct_size = ctypes.sizeof(newer)
    assert generate(model, newer)[:2] == (0, expected)
    newer.added = 1
    status, _, _ = generate(model, newer)
    assert status == KAEL_UNSUPPORTED
    assert last_error(status).message == "options sets a field that this library is too old for"


@pytest.mark.parametrize("size", [0, -1, 8, 79])
def test_a_struct_that_is_too_small_is_refused(model, size):
    given = options()
    given.struct_size = size
    status, _, _ = generate(model, given)
    assert status == KAEL_INVALID_ARGUMENT
    assert last_error(status).message.startswith(f"the struct_size of options is {size}, expected at least")


def test_an_unset_result_is_refused_before_anything_runs(model):
    result = _signatures.GenerateResult()
    given = options()
    with_callback(given, lambda _: pytest.fail("it ran"))
    ids = (ctypes.c_int64 * 1)(1)
    tokens = (ctypes.c_int64 * 5)()
    status = native().released.kael_gpt_generate(
        model, ids, 1, ctypes.byref(given), tokens, ctypes.byref(result)
    )
    assert status == KAEL_INVALID_ARGUMENT
    assert last_error(status).message.startswith("the struct_size of result is 0")


@pytest.mark.parametrize("answer", [FAILED, -7])
def test_a_failed_callback_ends_the_call_and_leaves_what_was_announced(model, answer):
    _, expected, _ = generate(model, options())
    given = options()
    announced: list[int] = []

    def on_token(token: int) -> int:
        announced.append(token)
        return CONTINUE if len(announced) < 3 else answer

    with_callback(given, on_token)
    status, tokens, result = generate(model, given)
    assert status == KAEL_CALLBACK_FAILED
    assert last_error(status).message == "on_token failed at new token 3"
    assert result.count == 3
    assert tokens == announced == expected[:3]


@pytest.mark.parametrize(("answer", "count", "reason"), [(STOP, 1, 2), (CONTINUE, 5, 0), (2, 5, 0)])
def test_the_answers_of_a_callback(model, answer, count, reason):
    given = options()
    with_callback(given, lambda _: answer)
    status, _, result = generate(model, given)
    assert (status, result.count, result.finish_reason) == (0, count, reason)


def test_should_stop_is_asked_with_the_user_data(model):
    given = options()
    seen = []

    def should_stop(user_data: int) -> int:
        seen.append(user_data)
        return len(seen) > 4  # once before the prompt, once for each of its layers, once for each token

    given.should_stop = _signatures.StopCallback(should_stop)
    given.user_data = 1234
    status, tokens, result = generate(model, given)
    assert (status, len(tokens), result.finish_reason) == (0, 2, 3)
    assert seen == [1234] * 5


def test_stop_tokens_and_seeds_pass_through(model):
    _, expected, _ = generate(model, options())
    given = options()
    stop = (ctypes.c_int64 * 1)(expected[0])
    given.stop_tokens, given.stop_token_count = stop, 1
    given.has_seed, given.seed = 1, 2**64 - 1
    status, tokens, result = generate(model, given)
    assert (status, tokens, result.finish_reason, result.seed) == (0, expected[:1], 1, 2**64 - 1)


def test_no_tokens_need_no_memory(model):
    ids = (ctypes.c_int64 * 1)(1)
    result = _signatures.sized(_signatures.GenerateResult)
    given = options(0)
    call = native().released.kael_gpt_generate
    assert call(model, ids, 1, ctypes.byref(given), None, ctypes.byref(result)) == 0
    assert result.count == 0
    given.max_tokens = 1
    assert call(model, ids, 1, ctypes.byref(given), None, ctypes.byref(result)) == KAEL_INVALID_ARGUMENT


def test_nulls_are_refused_by_name(model):
    released = native().released
    config = _signatures.sized(_signatures.GptConfig)
    ids = (ctypes.c_int64 * 1)(1)
    handle = ctypes.POINTER(_signatures.GptHandle)()
    tensor = ctypes.POINTER(_signatures.TensorHandle)()
    token = ctypes.c_int64()
    result = _signatures.sized(_signatures.GenerateResult)
    given = options()
    tokens = (ctypes.c_int64 * 5)()

    def sample_next(logits, out):
        return released.kael_sample_next(logits, 1, ctypes.byref(given), None, 0, None, 0, 0.5, out)

    calls = {
        "gpt": lambda: released.kael_gpt_create(ctypes.byref(config), None),
        "config": lambda: released.kael_gpt_create(None, ctypes.byref(handle)),
        "folder": lambda: released.kael_gpt_load(None, 3, 0, ctypes.byref(handle)),
        "path": lambda: released.kael_gpt_load_weights(model, None, 3),
        "ids": lambda: released.kael_gpt_logits(model, None, 1, 1, ctypes.byref(tensor)),
        "logits": lambda: released.kael_gpt_logits(model, ids, 1, 1, None),
        "activations": lambda: released.kael_gpt_activations(model, ids, 1, None),
        "count": lambda: native().kept.kael_gpt_parameter_count(model, None),
        "token": lambda: sample_next((ctypes.c_float * 1)(1), None),
        "options": lambda: released.kael_gpt_generate(model, ids, 1, None, tokens, ctypes.byref(result)),
        "result": lambda: released.kael_gpt_generate(model, ids, 1, ctypes.byref(given), tokens, None),
    }
    for argument, call in calls.items():
        status = call()
        assert status == KAEL_INVALID_ARGUMENT, argument
        assert last_error(status).message == f"the argument {argument} is null"
    assert sample_next(None, ctypes.byref(token)) == KAEL_INVALID_ARGUMENT
    released.kael_gpt_free(None)


def test_computing_in_another_dtype_is_refused():
    handle = ctypes.POINTER(_signatures.GptHandle)()
    status = native().released.kael_gpt_load(b"nowhere", 7, 4, ctypes.byref(handle))
    assert status == KAEL_UNSUPPORTED
    assert last_error(status).message == (
        "the weight format is 4, expected 0 (float32), 1 (bfloat16), 2 (int8) or 3 (int4)"
    )
