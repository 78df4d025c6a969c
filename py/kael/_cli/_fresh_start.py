"""A fresh process that ``bench`` starts: loads a model, generates, and prints what that took as JSON."""

from __future__ import annotations

import json
import sys
import time

import kael
from kael import _machine


def main(folder: str, dtype: str, depth: int) -> None:
    started = time.perf_counter()
    model = kael.GPT.from_pretrained(folder, dtype=dtype)
    loaded = time.perf_counter()
    model.generate([0], 1, temperature=0)
    first = time.perf_counter()
    model.generate([0], depth, temperature=0)
    print(
        json.dumps(
            {
                "load_seconds": loaded - started,
                "first_token_seconds": first - started,
                "peak_resident_bytes": _machine.peak_resident_bytes() or 0,
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
