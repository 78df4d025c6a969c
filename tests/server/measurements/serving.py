"""Measures what the server costs beside its library, and how fast it answers others during a generation.

    scripts/measure-serving [--data DIR] [--rounds 8] [--tokens 64]

Ends with 1 when one of the bounds below does not hold. They are for a machine with two cores or more
that does nothing else.
"""

from __future__ import annotations

import argparse
import pathlib
import socket
import statistics
import sys
import threading
import time

import server_process
from server_live import message

import kael

MAX_COST = 0.03  # of the library's tokens per second
MAX_HEALTH_SECONDS = 0.010  # of 99 answers in 100

PROMPT = "Once upon a time"
REQUESTS_PER_SECOND = 200


def read_whole_response(client):
    """As little work as possible: it shares the cores with what is measured."""
    data = client.recv(65536)
    while b"\r\n\r\n" not in data:
        data += client.recv(65536)
    headers, _, body = data.partition(b"\r\n\r\n")
    length = int(headers.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
    while len(body) < length:
        body += client.recv(65536)


class Load:
    """Health checks and, one in two, refused requests at a steady rate; inside a with block."""

    REQUESTS = (b"GET /health HTTP/1.1\r\nHost: measure\r\n\r\n", message({"prompt": "hi", "max_tokens": 0}))

    def __init__(self, port, requests=REQUESTS, per_second=REQUESTS_PER_SECOND):
        self.seconds = []
        self._client = socket.create_connection(("127.0.0.1", port), timeout=10)
        self._client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._requests, self._interval = requests, 1 / per_second
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def _run(self):
        due = time.monotonic()
        while not self._ended.wait(max(0.0, due - time.monotonic())):
            due += self._interval
            started = time.monotonic()
            self._client.sendall(self._requests[len(self.seconds) % len(self._requests)])
            read_whole_response(self._client)
            self.seconds.append(time.monotonic() - started)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._ended.set()
        self._thread.join()
        self._client.close()


def rate_of_library(model, ids, tokens):
    started = time.perf_counter()
    model.generate(ids, tokens, temperature=0.0)
    return tokens / (time.perf_counter() - started)


def rate_of_server(server, tokens):
    answer = server.post({"prompt": PROMPT, "max_tokens": tokens, "temperature": 0}).json
    return answer["tokens"] / answer["seconds"]


def serve(data, threads):
    """A server that computes with so many threads."""
    return server_process.Process("-c", _SERVE.format(threads=threads), "--data", data, "--port", "0")


_SERVE = """
import sys, kael
from server.__main__ import main
kael.set_num_threads({threads})
sys.exit(main(sys.argv[1:]))
"""


def costs_beside_the_library(data, rounds, tokens):
    """The share of the library's rate that the server loses; two threads, nobody else asks."""
    kael.set_num_threads(2)
    model, tokenizer = kael.GPT.from_pretrained(data), kael.BpeTokenizer.from_pretrained(data)
    ids = tokenizer.encode(PROMPT)
    with serve(data, 2) as server:
        pairs = [(rate_of_library(model, ids, tokens), rate_of_server(server, tokens)) for _ in range(rounds)]
    return share_lost(pairs[1:])  # the first pair reads the weights


def costs_of_requests(data, rounds, tokens):
    """The share that requests to the server cost beyond the same ones to an idle server; one thread."""
    pairs = []
    with serve(data, 1) as server, serve(data, 1) as idle:
        for _ in range(rounds):
            rates = []
            for asked in (idle, server):
                with Load(asked.port):
                    rates.append(rate_of_server(server, tokens))
            pairs.append(rates)
    return share_lost(pairs[1:])


def slowest_health_check(data, rounds, tokens):
    """The seconds within which 99 of 100 health checks were answered during generations with one thread."""
    with serve(data, 1) as server, Load(server.port, Load.REQUESTS[:1]) as load:
        generations = 0
        while generations < rounds or len(load.seconds) < 2:  # a short generation may see none
            rate_of_server(server, tokens)
            generations += 1
    return statistics.quantiles(load.seconds, n=100)[-1]


def share_lost(pairs):
    """The second rates against the first, each pair measured in the same moments of the machine."""
    return 1 - statistics.median(second / first for first, second in pairs)


def main():
    parser = argparse.ArgumentParser(
        prog="scripts/measure-serving",
        description=__doc__.partition("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument(
        "--data", type=pathlib.Path, default=kael.default_model_path(), help="folder of the model"
    )
    parser.add_argument("--rounds", type=int, default=8, help="generations of each kind")
    parser.add_argument("--tokens", type=int, default=64, help="of each generation")
    options = parser.parse_args()
    given = (options.data, options.rounds, options.tokens)
    try:
        cost = costs_beside_the_library(*given)
    except kael.Error as error:  # of the model, which it is the first to load
        sys.exit(f"{parser.prog}: {error}")
    more, slowest = costs_of_requests(*given), slowest_health_check(*given)
    print(f"the server costs {cost:.1%} of the library's tokens per second (at most {MAX_COST:.0%})")
    others = f"{REQUESTS_PER_SECOND} requests a second"
    print(f"{others} cost {more:.1%} more than to an idle server (at most {MAX_COST:.0%})")
    limit = 1e3 * MAX_HEALTH_SECONDS
    print(f"99 of 100 health checks are answered within {1e3 * slowest:.1f} ms (at most {limit:.0f})")
    return int(cost > MAX_COST or more > MAX_COST or slowest > MAX_HEALTH_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
