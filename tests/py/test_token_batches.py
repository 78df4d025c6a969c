"""Token ids in files, and the batches that a language model is trained on."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import kael
from kael.data import TokenBatches, load_tokens, save_tokens


def test_tokens_come_back_from_their_file_without_being_read(tmp_path):
    path = tmp_path / "text.tokens"
    save_tokens(path, [5, 0, 2**31 - 1], {"source": "a book"})
    file = load_tokens(path)
    assert file["tokens"].tolist() == [5, 0, 2**31 - 1]
    assert file["tokens"].dtype == "int32"
    assert file.metadata == {"source": "a book"}
    assert not file["tokens"].numpy().flags.writeable


@pytest.mark.parametrize("ids", [[-1], [2**31]])
def test_ids_that_int32_cannot_hold_are_refused(tmp_path, ids):
    with pytest.raises(kael.Error, match=f"ids run from {ids[0]} to {ids[0]}, expected 0 to 2147483647"):
        save_tokens(tmp_path / "text.tokens", ids)
    assert not (tmp_path / "text.tokens").exists()


@pytest.mark.parametrize(
    ("tensors", "found"),
    [
        ({}, "none"),
        ({"tokens": np.zeros((2, 2), np.int32)}, r"int32 \[2, 2\]"),
        ({"tokens": np.zeros(2)}, "float64"),
    ],
)
def test_another_file_is_named(tmp_path, tensors, found):
    path = tmp_path / "other.safetensors"
    kael.save_safetensors(path, tensors)
    with pytest.raises(
        kael.Error, match=rf"other.safetensors is no file of token ids.*found {found}"
    ) as caught:
        load_tokens(path)
    assert caught.value.code == kael.ErrorCode.INVALID_FILE


@given(st.integers(2, 200), st.integers(1, 9), st.integers(1, 50), st.integers(0, 2**64 - 1))
def test_an_epoch_takes_every_window_once(size, batch_size, context, seed):
    context = min(context, size - 1)
    batches = TokenBatches(np.arange(size), batch_size, context, seed)
    windows = []
    for step in range(-(-batches.windows_per_epoch // batch_size)):
        inputs, targets = batches[step]
        assert inputs.shape == targets.shape == (batch_size, context)
        assert inputs.dtype == targets.dtype == "int64"
        np.testing.assert_array_equal(targets.numpy(), inputs.numpy() + 1)
        windows.extend(inputs.numpy())
    windows = windows[: batches.windows_per_epoch]
    seen = np.sort(np.concatenate(windows))
    np.testing.assert_array_equal(seen, np.arange(seen[0], seen[0] + len(windows) * context))
    for window in windows:
        np.testing.assert_array_equal(window, np.arange(window[0], window[0] + context))


def test_every_token_is_predicted_in_some_epoch():
    batches = TokenBatches(np.arange(40), 1, 8, seed=3)
    assert batches.windows_per_epoch == 4
    seen = {token for step in range(400) for token in batches[step][1].tolist()[0]}
    assert seen == set(range(1, 40))


def test_a_batch_depends_on_seed_and_step_alone():
    tokens = np.arange(1000, dtype=np.int32)
    batches, others = (TokenBatches(tokens, 4, 16, seed) for seed in (7, 8))
    late = batches[100][0].tolist()
    assert TokenBatches(kael.tensor(tokens), 4, 16, 7)[100][0].tolist() == late
    assert others[100][0].tolist() != late
    assert batches[99][0].tolist() != late
    # Recorded: a training that is resumed with another version of kael or NumPy takes the same batches.
    assert [batches[step][0].tolist()[0][0] for step in range(4)] == [139, 267, 827, 251]


def test_a_text_shorter_than_the_context_says_what_to_change():
    with pytest.raises(
        kael.Error,
        match=r"has 8 tokens, expected at least 9, a context of 8 .* give more text or a shorter context",
    ):
        TokenBatches(list(range(8)), 1, 8)
    assert TokenBatches(list(range(9)), 1, 8)[0][1].tolist() == [[1, 2, 3, 4, 5, 6, 7, 8]]


@pytest.mark.parametrize("tokens", [[[1, 2], [3, 4]], [0.5, 1.5], "text"])
def test_what_is_no_list_of_ids_is_a_type_error(tokens):
    with pytest.raises(TypeError, match=r"tokens must be integers \[N\]"):
        TokenBatches(tokens, 1, 1)


@pytest.mark.parametrize(("step", "error"), [(-1, kael.Error), (2**63, kael.Error), (0.5, TypeError)])
def test_a_step_must_be_one(step, error):
    with pytest.raises(error, match="step"):
        TokenBatches([1, 2, 3], 2, 1)[step]
