"""What guessing tokens from the text (``speculate``) gains and costs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import kael
from kael import _generation
from kael._cli._progress_line import Progress
from kael._sampling import Sampling

# Tokens of a sample: enough to get over the first guesses, which are short.
_TOKENS = 128

# Circles of so many tokens: more than must be alike for a guess, far fewer than a sample has.
_CIRCLE = 16


def measure_speculation(
    folder: Path, dtypes: Sequence[str], guesses: int, repeats: int, progress: Progress
) -> list[dict[str, Any]]:
    """The speed of decoding with guesses over that without, each pair measured in the same moments of the
    machine: of a text that goes in circles, and of one that is drawn from all tokens and repeats itself
    little.
    """
    rows = []
    for dtype in dtypes:
        with kael.GPT.from_pretrained(folder, dtype=dtype) as model:
            texts = {
                "in circles": _circles(model.config.vocab_size),
                "drawn at temperature 1": Sampling(temperature=1.0),
            }
            for text, sampling in texts.items():
                _generate(model, sampling, 0, guesses)  # wakes threads and fills caches
                pairs = []
                for sample in range(repeats):
                    progress.show(f"{dtype}, text {text}: sample {sample + 1} of {repeats}")
                    order = (0, guesses) if sample % 2 == 0 else (guesses, 0)
                    made = {count: _generate(model, sampling, sample, count) for count in order}
                    pairs.append((made[0], made[guesses]))
                ratios = [plain.decode_seconds / tried.decode_seconds for plain, tried in pairs]
                tokens = sum(len(tried.tokens) for _, tried in pairs)
                rows.append(
                    {
                        "dtype": dtype,
                        "text": text,
                        "guesses": guesses,
                        "speed_ratio": statistics.median(ratios),
                        "speed_ratio_range": [min(ratios), max(ratios)],
                        "guessed_share": sum(tried.guessed_tokens for _, tried in pairs) / tokens,
                    }
                )
    return rows


def _generate(model: kael.GPT, sampling: Sampling, seed: int, guesses: int) -> kael.Generation:
    positions, vocab_size = model.config.max_positions, model.config.vocab_size
    prompt = [position % vocab_size for position in range(min(32, positions // 4))]
    tokens = min(_TOKENS, positions - len(prompt))
    return model._generate(_generation.Request(prompt, tokens, sampling, seed, speculate=guesses))


def _circles(vocab_size: int) -> Sampling:
    """Makes any model write the same tokens in the same order again and again: each comes when all those of
    a higher bias have come once more.
    """
    return Sampling(
        temperature=0.0,
        logit_bias={token: 1e7 + 1e4 * token for token in range(min(_CIRCLE, vocab_size))},
        frequency_penalty=1e6,
    )


def show_speculation(rows: list[dict[str, Any]]) -> None:
    for row in rows:
        low, high = row["speed_ratio_range"]
        print(
            f"{row['dtype']:>8} with {row['guesses']} guesses: {row['speed_ratio']:.2f} x the speed "
            f"({low:.2f} to {high:.2f}) on a text {row['text']}, {row['guessed_share']:.0%} of it guessed"
        )
