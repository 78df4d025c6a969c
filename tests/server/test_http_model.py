"""The library's own model behind the server, through the native ring."""

from __future__ import annotations

import pytest
import server_checkpoint
from server_fakes import Bytes, Sequence
from server_live import Server, read_to_end, read_until, wait_for

import kael
from server import Generator, load_app


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """A folder with a checkpoint of one token a byte."""
    return server_checkpoint.write(tmp_path_factory.mktemp("checkpoint"))


@pytest.fixture(scope="module")
def loaded(checkpoint):
    """What load_app makes of it."""
    return load_app(checkpoint, "cpu").generator


@pytest.fixture
def server(loaded):
    # A generator serves one application after the other here, with counters of its own for each.
    generator = Generator(loaded.model, loaded.tokenizer, context=loaded.context)
    server = Server(generator)
    yield server
    server.close()
    server.close_clients()


@pytest.fixture
def tiny(serve):
    """A model of 256 tokens and 64 positions with random weights."""
    kael.manual_seed(0)
    model = kael.GPT(vocab_size=256, max_positions=64, layers=1, heads=2, dimension=16)
    return serve(model, Bytes(), context=64)


def test_generate_returns_the_requested_token_count(tiny):
    for max_tokens in (1, 2, 20, 62):
        answer = tiny.generate("hi", max_tokens=max_tokens)
        assert answer.status == 200
        assert answer.json["tokens"] == max_tokens
        assert answer.json["finish_reason"] == "length"
    assert tiny.sample("kael_generated_tokens_total") == 85


def test_temperature_zero_is_deterministic(tiny):  # B103, B107
    answers = {tiny.generate("hello", max_tokens=30, temperature=0).json["text"] for _ in range(5)}
    assert len(answers) == 1


def test_stream_sends_the_same_text_as_a_plain_request(tiny):
    for fields in ({"temperature": 0}, {"seed": 1}, {"seed": 2, "temperature": 5, "top_k": 0}):
        plain = tiny.generate("hello", max_tokens=40, **fields)
        stream = tiny.generate("hello", max_tokens=40, stream=True, **fields)
        assert stream.text == plain.json["text"]


def test_a_large_top_k_is_clamped_to_the_vocabulary(tiny):
    without_limit = tiny.generate("hello", max_tokens=20, top_k=0, seed=3).json["text"]
    for top_k in (256, 257, 100_000, 1_000_000):
        assert tiny.generate("hello", max_tokens=20, top_k=top_k, seed=3).json["text"] == without_limit


def test_temperature_zero_gives_what_the_library_gives(server, loaded):
    prompt = "The same answer, à la carte"
    ids = loaded.model.generate(loaded.tokenizer.encode(prompt), 100, temperature=0)
    answer = server.generate(prompt, max_tokens=100, temperature=0)
    assert answer.json["text"] == loaded.tokenizer.decode(ids).decode("utf-8", "replace")


def test_a_seed_gives_what_the_library_gives_whatever_came_before(server, loaded):  # B104, B106
    ids = loaded.model.generate(loaded.tokenizer.encode("seed"), 50, temperature=0.9, top_k=20, seed=42)
    expected = loaded.tokenizer.decode(ids).decode("utf-8", "replace")
    fields = {"max_tokens": 50, "temperature": 0.9, "top_k": 20, "seed": 42}
    for between in ("x", "something else"):
        assert server.generate("seed", **fields).json["text"] == expected
        server.generate(between, max_tokens=3)


def test_the_seed_of_an_answer_repeats_it(server):
    first = server.generate("again", max_tokens=40, temperature=1.5, top_k=0).json
    assert 0 <= first["seed"] < 2**53
    again = server.generate("again", max_tokens=40, temperature=1.5, top_k=0, seed=first["seed"]).json
    assert again["text"] == first["text"]
    assert again["seed"] == first["seed"]
    other = server.generate("again", max_tokens=40, temperature=1.5, top_k=0).json
    assert other["seed"] != first["seed"]


def test_the_largest_seed_is_taken(server):
    assert server.generate("a", max_tokens=1, seed=2**64 - 1).json["seed"] == 2**64 - 1


def test_the_context_is_the_checkpoints(server):
    assert server.generate("x" * 900, max_tokens=124).json["tokens"] == 124
    assert server.generate("x" * 900, max_tokens=125).status == 413


def test_end_of_text_in_the_prompt_is_plain_text(server, loaded):  # B029, B031
    answer = server.generate("<|endoftext|>", max_tokens=1)
    assert answer.json["usage"]["prompt_tokens"] == len("<|endoftext|>")


def test_the_times_of_an_answer_agree(server):
    timings = server.generate("hello", max_tokens=50).json["timings"]
    assert 0 <= timings["tokenize_seconds"] < 5
    assert 0 < timings["prefill_seconds"] <= timings["first_token_seconds"] < 5
    assert timings["seconds_per_token"] * timings["tokens_per_second"] == pytest.approx(1, rel=1e-3)


def test_figures_have_the_digits_that_mean_something(server):
    answer = server.generate("hello", max_tokens=50).json
    for figure in (answer["seconds"], *answer["timings"].values()):
        assert figure == float(f"{figure:.4g}")


def test_a_client_that_leaves_frees_the_slot(tmp_path):
    folder = server_checkpoint.write(tmp_path, layers=8, width=384)  # milliseconds for a token
    server = Server(load_app(folder, "cpu").generator)
    try:
        for stream in (False, True):
            client = server.begin("x" * 500, max_tokens=512, stream=stream, stop_at_eos=False)
            wait_for(lambda: not server.is_free())
            client.close()
            server.wait_until_free()
        wait_for(lambda: server.counts() == {"cancelled": 2})
        assert server.generate("a", max_tokens=2, stop_at_eos=False).json["tokens"] == 2
    finally:
        server.close()
        server.close_clients()


def test_shutdown_ends_the_generation_of_the_library(server):
    client = server.begin("x" * 100, max_tokens=512, stream=True)
    begun = read_until(client, b"data: ")
    assert server.close()
    assert (begun + read_to_end(client)).endswith(b"data: [DONE]\n\n\r\n0\r\n\r\n")
    assert server.is_free()


def test_many_generations_leave_no_descriptor(server):
    import os

    server.generate(max_tokens=1)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(100):
        server.generate(max_tokens=1)
    assert len(os.listdir("/proc/self/fd")) <= before + 2


@pytest.mark.parametrize("missing", [["vocab.json"], ["merges.txt"], ["vocab.json", "merges.txt"]])
def test_a_folder_without_tokenizer_files_is_refused_by_their_names(tmp_path, missing):
    folder = server_checkpoint.write(tmp_path / "model")
    for name in missing:
        (folder / name).unlink()
    with pytest.raises(kael.Error) as caught:
        load_app(folder, "cpu")
    assert all(name in caught.value.message for name in [*missing, str(folder)])


def test_a_folder_without_a_model_is_refused(tmp_path):
    folder = server_checkpoint.write(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    with pytest.raises(kael.Error, match=r"model\.safetensors"):
        load_app(folder, "cpu")


@pytest.mark.parametrize("stream", [False, True])
def test_an_id_that_the_vocabulary_lacks_is_a_replacement_character(serve, stream):
    class Padded(Bytes):
        """A vocabulary of single bytes behind a model with more ids."""

        def decode(self, ids):
            if max(ids) > 255:
                raise kael.Error("no such id", kael.ErrorCode.INVALID_ARGUMENT)
            return bytes(ids)

    server = serve(Sequence([104, 300, 105, 301]), Padded())
    answer = server.generate(stream=stream)
    assert (answer.text if stream else answer.json["text"]) == "h\ufffdi\ufffd"
