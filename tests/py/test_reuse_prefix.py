"""What a generation keeps of the calls before it: the answer is the same to the bit, and says how much."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import kael
from kael import _generation, _signatures
from kael._sampling import Sampling

POSITIONS = 48
VOCABULARY = 24


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A small model whose numbers spread, so that a wrong position shows."""
    kael.manual_seed(12)
    model = kael.GPT(VOCABULARY, POSITIONS, layers=2, heads=2, dimension=16)
    for name, parameter in model.state_dict().items():
        if not name.startswith("ln") and ".ln_" not in name:
            parameter.copy_(kael.randn(*parameter.shape) * 0.5)
    path = tmp_path_factory.mktemp("model")
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def warm(folder):
    """Sees one call after another."""
    return kael.GPT.from_pretrained(folder)


@pytest.fixture(scope="module")
def cold(folder):
    return kael.GPT.from_pretrained(folder)


def ask(model, ids, max_tokens=6, on_token=None, **options):
    """A generation, and the log probability of each of its tokens."""
    logprobs = kael.Logprobs(max_tokens, 2)
    sampling = Sampling(temperature=options.pop("temperature", 0.9))
    request = _generation.Request(ids, max_tokens, sampling, 7, (), logprobs, **options)
    generation = model._generate(request, on_token)
    said = [logprobs.token(index) for index in range(len(generation.tokens))]
    return generation, [(entry.logprob, entry.top) for entry in said]


def shared_prefix(first, second):
    length = 0
    for a, b in zip(first, second, strict=False):
        if a != b:
            break
        length += 1
    return length


def seen(prompt, tokens):
    """The ids that a generation has left: of its last token nothing was computed."""
    return (list(prompt) + tokens[:-1])[-POSITIONS:] if tokens else list(prompt)[-POSITIONS:]


PROMPTS = st.lists(st.integers(0, 2), min_size=1, max_size=40)  # of few tokens: much is shared by chance


def answer(tokens_before_stop):
    """A callback that stops the generation so many tokens on."""
    count = 0

    def on_token(token):
        nonlocal count
        count += 1
        return count < tokens_before_stop

    return on_token


@st.composite
def pairs(draw):
    """A prompt, and one that begins as it does and goes on otherwise."""
    first = draw(PROMPTS)
    return first, first[: draw(st.integers(0, len(first)))] + draw(PROMPTS)


@given(
    prompts=pairs(),
    before=st.sampled_from(["generation", "cancelled", "slid", "logits", "batch", "activations", "failed"]),
    max_tokens=st.integers(1, 60),
    temperature=st.sampled_from([0.0, 0.9]),
)
def test_the_answer_is_that_of_a_model_that_has_seen_nothing(
    warm, cold, prompts, before, max_tokens, temperature
):
    first, second = prompts
    if before == "generation":
        left = seen(first, ask(warm, first)[0].tokens)
    elif before == "cancelled":
        left = seen(first, ask(warm, first, 20, answer(3))[0].tokens)
    elif before == "slid":
        left = seen(first, ask(warm, first, 70)[0].tokens)
    elif before == "logits":
        warm(first)
        left = first
    elif before == "batch":
        warm([first[::-1], first])
        left = first
    elif before == "activations":
        warm.activations(first)
        left = first
    else:
        with pytest.raises(ZeroDivisionError):
            ask(warm, first, 4, lambda token: 1 // 0)
        left = first
    given_back = ask(warm, second, max_tokens, temperature=temperature)
    plain = ask(cold, second, max_tokens, temperature=temperature, reuse_prefix=False)
    recomputed = ask(cold, second, max_tokens, temperature=temperature, use_cache=False)
    for generation, said in (plain, recomputed):
        assert generation.cached_tokens == 0
        assert generation.tokens == given_back[0].tokens
        assert said == given_back[1]
    assert given_back[0].cached_tokens == shared_prefix(left, second[:-1])


@given(prompts=pairs())
def test_the_number_of_threads_may_change_in_between(warm, cold, prompts):
    first, second = prompts
    before = kael.get_num_threads()
    try:
        kael.set_num_threads(3)
        ask(warm, first)
        kael.set_num_threads(1)
        assert ask(warm, second)[1] == ask(cold, second, reuse_prefix=False)[1]
    finally:
        kael.set_num_threads(before)


@pytest.mark.parametrize("dtype", _signatures.WEIGHT_FORMATS)
def test_every_dtype_gives_the_same_bits_whatever_was_kept_or_guessed(folder, dtype):
    warm, cold = (kael.GPT.from_pretrained(folder, dtype=dtype) for _ in range(2))
    for length in (5, 1, 17, 9, 30):
        prompt = [token % 3 for token in range(length)]
        expected = ask(cold, prompt, 20, use_cache=False)
        kept = ask(warm, prompt, 20, speculate=8)
        assert kept[0].tokens == expected[0].tokens
        assert kept[1] == expected[1]
    assert kept[0].cached_tokens >= 9


def test_the_tokens_of_the_public_call_are_the_same(warm, cold):
    text = [1, 2, 3, 4, 5]
    for _ in range(4):
        tokens = warm.generate(text, 7, seed=3)
        assert tokens == cold.generate(text, 7, seed=3, reuse_prefix=False)
        text += tokens


def test_generate_into_reuses_and_says_so(warm):
    prompt = [5, 4, 3, 2, 1]
    warm(prompt)
    for reuse, expected in ((True, 4), (False, 0), (True, 4)):
        ring = kael.TokenRing(3)
        generation = warm.generate_into(ring, prompt, 3, seed=1, reuse_prefix=reuse)
        ring.finish()
        ring.close()
        assert generation.cached_tokens == expected


def test_log_probabilities_of_the_prompt_are_all_computed(warm, cold):
    prompt = [3, 1, 4, 1, 5]
    ask(warm, prompt)
    rows = []
    for model in (warm, cold):
        logprobs = kael.Logprobs(2, 1, len(prompt))
        model.generate(prompt, 2, seed=1, logprobs=logprobs)
        rows.append([logprobs.prompt_token(index) for index in range(1, len(prompt))])
    assert rows[0] == rows[1]


def test_reuse_prefix_must_be_a_flag(tiny):
    with pytest.raises(TypeError, match="reuse_prefix must be True or False"):
        tiny.generate([1], 1, reuse_prefix=1)


# ---- Weights that change

PROMPT = [1, 2, 3, 4, 5, 6]


def through_numpy(model):
    model.named_parameters()["wpe.weight"].numpy()[2] += 1.0


def through_a_tensor(model):
    model.named_parameters()["h.0.attn.c_attn.weight"].mul_(2.0)


def through_a_state(model):
    model.load_state_dict({name: value + 0.25 for name, value in model.state_dict().items()})


def through_training(model):
    optimizer = kael.optim.AdamW(model.parameters(), lr=0.1)
    for parameter in model.parameters():
        parameter.requires_grad = True
    model(PROMPT).sum().backward()
    optimizer.step()


@pytest.mark.parametrize("change", [through_numpy, through_a_tensor, through_a_state, through_training])
def test_nothing_is_reused_once_a_parameter_may_have_changed(folder, change):
    model = kael.GPT.from_pretrained(folder).train()
    model.eval()
    ask(model, PROMPT)
    before = ask(model, PROMPT)
    assert before[0].cached_tokens == len(PROMPT) - 1
    change(model)
    after = ask(model, PROMPT)
    assert after[1] == ask(model, PROMPT, use_cache=False)[1]
    assert after[1] != before[1]
    assert after[0].cached_tokens == 0
    assert ask(model, PROMPT)[0].cached_tokens == 0  # it may change again, at any time


def test_a_tensor_that_was_handed_out_before_training_ends_the_reuse(folder):
    """It was read-only, and follows the weights to memory that is not."""
    model = kael.GPT.from_pretrained(folder)
    weight = model.named_parameters()["wpe.weight"]
    ask(model, PROMPT)
    assert ask(model, PROMPT)[0].cached_tokens == len(PROMPT) - 1
    model.train()
    ask(model, PROMPT)
    before = ask(model, PROMPT)
    assert before[0].cached_tokens == 0
    weight.numpy()[0] += 1.0
    assert ask(model, PROMPT)[1] != before[1]


def test_parameters_of_a_mapped_file_are_read_and_reuse_goes_on(folder, tmp_path):
    model = kael.GPT.from_pretrained(folder)
    ask(model, PROMPT)
    assert not model.state_dict()["wpe.weight"].numpy().flags.writeable
    model.save_pretrained(tmp_path / "copy")
    assert ask(model, PROMPT)[0].cached_tokens == len(PROMPT) - 1


def test_new_weights_begin_anew(folder, tmp_path):
    other = kael.GPT(VOCABULARY, POSITIONS, layers=2, heads=2, dimension=16)
    other.save_pretrained(tmp_path / "other")
    model = kael.GPT.from_pretrained(folder).train()
    model.named_parameters()
    model.load_gpt2(tmp_path / "other" / "model.safetensors")
    first = ask(model, PROMPT)
    assert first[0].cached_tokens == 0
    assert first[1] == ask(other, PROMPT)[1]
    assert ask(model, PROMPT)[0].cached_tokens == len(PROMPT) - 1  # handles of the old weights are no danger


def test_a_widened_checkpoint_reuses_until_its_parameters_are_handed_out(folder, tmp_path):
    kael.GPT.from_pretrained(folder).save_pretrained(tmp_path / "half", dtype="float16")
    model = kael.GPT.from_pretrained(tmp_path / "half")
    ask(model, PROMPT)
    assert ask(model, PROMPT)[0].cached_tokens == len(PROMPT) - 1
    model.state_dict()
    assert ask(model, PROMPT)[0].cached_tokens == 0
