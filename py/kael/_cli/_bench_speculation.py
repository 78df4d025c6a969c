"""What guessing tokens from the text (``speculate``) gains and costs, for ``bench``."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from typing import Any

import kael
from kael import _generation
from kael._sampling import Sampling

# Tokens of a sample: enough to get over the first guesses, which are short.
TOKENS = 128

# Circles of so many tokens: longer than what must agree for a guess, shorter than the sample by far.
_CIRCLE = 16


def measure_speculation(
    model: kael.GPT, guesses: int, repeats: int, show: Callable[[str], None]
) -> list[dict[str, Any]]:
    """The speed of decoding with guesses over that without, each pair measured in the same moments of the
    machine: of a text that goes in circles, where every guess is right, and of one that is drawn from all
    tokens and repeats itself little.
    """
    texts = {
        "in circles": _circles(model.config.vocab_size),
        "drawn at temperature 1": Sampling(temperature=1.0),
    }
    prompt = [
        position % model.config.vocab_size for position in range(min(32, model.config.max_positions // 4))
    ]
    rows = []
    for text, sampling in texts.items():
        ratios, guessed = [], 0
        for sample in range(repeats):
            show(f"text {text}, {guesses} guesses: sample {sample + 1} of {repeats}")
            plain, tried = (
                model._generate(
                    _generation.Request(
                        prompt, _tokens(model, prompt), sampling, sample, speculate=count, reuse_prefix=False
                    )
                )
                for count in (0, guesses)
            )
            ratios.append(plain.decode_seconds / tried.decode_seconds)
            guessed += tried.guessed_tokens
        rows.append(
            {
                "text": text,
                "guesses": guesses,
                "speed_ratio": statistics.median(ratios),
                "guessed_share": guessed / (repeats * _tokens(model, prompt)),
            }
        )
    return rows


def _tokens(model: kael.GPT, prompt: list[int]) -> int:
    return min(TOKENS, model.config.max_positions - len(prompt))


def _circles(vocab_size: int) -> Sampling:
    """Makes any model write the same tokens in the same order again and again: each comes when those of a
    higher bias have come once more.
    """
    count = min(_CIRCLE, vocab_size)
    return Sampling(
        temperature=0.0,
        logit_bias={token: 1e7 + 1e4 * token for token in range(count)},
        frequency_penalty=1e6,
    )


def show_speculation(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        print(
            f"  {row['guesses']} guesses     x{row['speed_ratio']:7.2f}   of a text {row['text']}, "
            f"{row['guessed_share']:.0%} of it guessed"
        )
