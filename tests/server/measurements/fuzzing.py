"""Sends a server requests that are drawn at random, and looks for an answer that should not be.

    scripts/fuzz-server [--minutes 10] [--data DIR]

Half of the time schemathesis asks a server for what its /openapi.json describes, right and wrong, and
compares each answer with that description. Then the property tests of the HTTP side run with random examples
until the time is over: bodies, fields, and bytes that are hardly HTTP. Ends with 1 when something was found;
what it was and how it is done again stands above.
"""

from __future__ import annotations

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

import server_process

TESTS = server_process.ROOT / "tests" / "server"
EXPECTATIONS = TESTS / "measurements" / "schemathesis.toml"


def draw_from_description(program, server, seconds):
    """What schemathesis finds in so many seconds, and what is wrong with the server afterwards."""
    description = f"http://127.0.0.1:{server.port}/openapi.json"
    command = [
        program, "--config-file", EXPECTATIONS, "run", description, "--checks", "all", "--max-time", seconds,
        "--request-timeout", 60, "--phases", "coverage,fuzzing,stateful", "--no-color",
    ]  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:  # for what it leaves behind
        result = subprocess.run([*map(str, command)], cwd=folder, check=False, stdin=subprocess.DEVNULL)
    metrics = server.get("/metrics").body.decode()
    health = server.get("/health").status
    server.signal()
    code = server.wait()
    rules = {
        "every answer is as described": result.returncode == 0,
        "the server answers afterwards": health == 200,
        "the slot is free": "kael_requests_in_flight 0.0" in metrics,
        "nothing failed": 'kael_requests_total{status="error"} 0.0' in metrics,
        "the log has no error": not re.search(r"ERROR|Traceback", server.stderr),
        "the server ends with 0": code == 0,
    }
    return [rule for rule, holds in rules.items() if not holds]


def draw_property_tests(until):
    """Runs the property tests until that time.monotonic(), once at least. Returns whether all held, and how
    often they ran."""
    tests = sorted(path for path in TESTS.glob("test_*.py") if "@given" in path.read_text("utf-8"))
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *map(str, tests)]
    environment = {**server_process.environment(), "KAEL_RANDOM_TESTS": "1"}
    rounds = 0
    while rounds == 0 or time.monotonic() < until:
        result = subprocess.run(
            command, cwd=server_process.ROOT, env=environment, check=False, capture_output=True, text=True
        )
        rounds += 1
        if result.returncode != 0:
            print(result.stdout + result.stderr)
            return False, rounds
    return True, rounds


def main():
    parser = argparse.ArgumentParser(
        prog="scripts/fuzz-server",
        description=__doc__.partition("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--data", type=pathlib.Path, help="folder of the model (the one that kael ships)")
    parser.add_argument("--schemathesis", metavar="PROGRAM", default="schemathesis", help=argparse.SUPPRESS)
    options = parser.parse_args()
    seconds = max(60 * options.minutes, 2)
    until = time.monotonic() + seconds
    with server_process.serve(*([] if options.data is None else ["--data", options.data])) as server:
        wrong = draw_from_description(options.schemathesis, server, int(seconds / 2))
    held, rounds = draw_property_tests(until)
    print(f"the property tests of the server ran {rounds} times with random examples")
    if not held:
        wrong.append("the property tests hold")
    for rule in wrong:
        print(f"NOT SO: {rule}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
