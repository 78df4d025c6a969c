"""The process of one engine, which runs in the interpreter that has its library.

    python -m peers.worker convert MODULE SOURCE FOLDER DTYPE
    python -m peers.worker serve MODULE SOURCE FOLDER DTYPE THREADS

``serve`` loads the engine, answers with the seconds from there to its first token, and then each line of JSON
with a line of JSON.
"""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import json
import os
import sys
import time
from pathlib import Path

from peers.gpt2_checkpoint import Checkpoint


def convert(module: str, source: Path, folder: Path, dtype: str) -> None:
    name = f"peers.converters.{module}"
    if importlib.util.find_spec(name) is not None:
        importlib.import_module(name).convert(Checkpoint(source), folder, dtype)


def serve(module: str, source: Path, folder: Path, dtype: str, threads: str) -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not come between the answers
    engine = importlib.import_module(f"peers.engines.{module}")
    started = time.perf_counter()
    model = engine.load(source, folder, dtype, int(threads))
    model.generate([0], 1)
    print(json.dumps({"load_seconds": time.perf_counter() - started}), file=answers, flush=True)
    for line in sys.stdin:
        answer = model.generate(**json.loads(line))
        print(json.dumps(dataclasses.asdict(answer)), file=answers, flush=True)


if __name__ == "__main__":
    command, module, source, folder, *options = sys.argv[1:]
    {"convert": convert, "serve": serve}[command](module, Path(source), Path(folder), *options)
    sys.stdout.flush()
    os._exit(0)  # some libraries cannot be taken down while their threads wait
