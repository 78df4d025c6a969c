"""Sends many requests of all kinds over many connections at once, and checks what the server counted.

    scripts/stress-server [--requests 10000] [--connections 50] [--queue 0] [--data DIR]

Ends with 1 when the counters do not add up, the slot is not free, the log has an error, or memory grew.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import random
import re
import sys
import threading
import time
from collections import Counter

import server_process
from server_live import message, read_response, read_responses, reset

from server.limits import MAX_BODY_BYTES

MAX_GROWTH_BYTES = 5_000_000
_WARM_UP = 0.3  # of the requests, before memory is compared

VALID = {"prompt": "Once upon a time", "max_tokens": 8}

LEFT = "left"  # in place of a status: the client did not wait for its answer


def head(*headers):
    return ("\r\n".join(["POST /generate HTTP/1.1", "Host: stress", *headers]) + "\r\n\r\n").encode()


def in_chunks(body, size=7):
    pieces = [body[start : start + size] for start in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"


# Each kind sends its requests over a fresh connection and returns, for each of them, the status or LEFT.


def plain(client):
    client.sendall(message(VALID))
    return [read_response(client).status]


def stream(client):
    client.sendall(message({**VALID, "stream": True}))
    return [read_response(client).status]


def completions(client):
    client.sendall(message({**VALID, "stream": random.random() < 0.5, "logprobs": 2}, path="/v1/completions"))
    return [read_response(client).status]


def fields(client):
    limited = {
        **VALID,
        "max_tokens": 400,
        "stop": ["zzz", ", and"],
        "timeout_s": 0.05,
        "top_p": 0.5,
        "min_p": 0.01,
    }
    client.sendall(message({**limited, "presence_penalty": 1, "frequency_penalty": 1, "details": True}))
    return [read_response(client).status]


def kept(client):
    statuses = []
    for body in (VALID, {}, VALID):
        client.sendall(message(body))
        statuses.append(read_response(client).status)
    return statuses


def pipelined(client):
    client.sendall(message(VALID) + b"\r\n" + message({}) + message({**VALID, "stream": True}))
    return [response.status for response in read_responses(client, 3)]


def chunked(client):
    client.sendall(head("Transfer-Encoding: chunked") + in_chunks(json.dumps(VALID).encode()))
    return [read_response(client).status]


def slow(client):
    data = message(VALID)
    for start in range(0, len(data), 40):
        client.sendall(data[start : start + 40])
        time.sleep(0.005)
    return [read_response(client).status]


def invalid(client):
    client.sendall(
        message(random.choice([{}, {**VALID, "max_tokens": 0}, b"not json", b"\xff", b"[" * 5000]))
    )
    return [read_response(client).status]


def oversized(client):
    client.sendall(message(b"x" * (MAX_BODY_BYTES + random.choice([1, 1000, 500_000]))))
    return [read_response(client).status]


def oversized_in_chunks(client):
    client.sendall(head("Transfer-Encoding: chunked") + in_chunks(b"x" * 100_000, size=8000))
    return [read_response(client).status]


def cut_in_its_body(client):
    client.sendall(message(VALID)[:-5])
    return [LEFT]


def cut_in_its_headers(client):
    client.sendall(message(VALID)[:40])
    return []  # which is no request yet


def leaves(client):
    client.sendall(message({**VALID, "max_tokens": 400}))
    time.sleep(random.choice([0, 0.005]))
    return [LEFT]


def half_closes(client):
    client.sendall(message({**VALID, "max_tokens": 400, "stream": True}) + b"\r\n")
    time.sleep(random.choice([0, 0.005]))
    client.shutdown(1)
    return [LEFT]


def leaves_a_stream_with_reset(client):
    client.sendall(message({**VALID, "max_tokens": 400, "stream": True}))
    client.recv(200)  # the server has read the request, whatever it answers
    reset(client)
    return [LEFT]


def does_not_read(client):
    client.sendall(message({**VALID, "max_tokens": 400, "stream": True}))
    time.sleep(0.05)
    return [LEFT]


def tokens(client):
    for path, body in (
        ("/tokenize", {"text": "word " * 1000, "pieces": True}),
        ("/detokenize", {"tokens": [-1]}),
    ):
        client.sendall(message(body, path=path))
        read_response(client)
    return []


def health(client):
    for path in ("/health", "/metrics", "/ready", "/nowhere"):
        client.sendall(f"GET {path} HTTP/1.1\r\nHost: stress\r\n\r\n".encode())
        read_response(client, "GET")
    return []


KINDS = (
    plain, stream, completions, fields, tokens, kept, pipelined, chunked, slow, invalid, oversized,
    oversized_in_chunks, cut_in_its_body, cut_in_its_headers, leaves, half_closes,
    leaves_a_stream_with_reset, does_not_read, health,
)  # fmt: skip


class Stress:
    """Connections that take turns until so many requests are sent."""

    def __init__(self, server, requests):
        self._server = server
        self._requests = requests
        self._lock = threading.Lock()
        self.sent = Counter()  # requests by the status that their client saw
        self.by_kind = Counter()
        self.failures = []

    def run(self, connections, until):
        threads = [threading.Thread(target=self._work, args=(until, number)) for number in range(connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _work(self, until, number):
        choose = random.Random(f"{until} {number}").choice
        while self.sent.total() < until and not self.failures:
            kind = choose(KINDS)
            client = self._server.connect()
            try:
                statuses = kind(client)
            except Exception as error:
                self.failures.append(f"{kind.__name__}: {error!r}")
                return
            finally:
                client.close()
            with self._lock:
                self._server._clients.remove(client)
                self.by_kind[kind.__name__] += 1
                self.sent.update(statuses)


def resident_bytes(pid):
    kibibytes = re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())[1]
    return 1024 * int(kibibytes)


def samples(server):
    lines = [
        line.rsplit(" ", 1) for line in server.get("/metrics").body.decode().splitlines() if line[0] != "#"
    ]
    return {name: float(number) for name, number in lines}


def wait_for_the_end(server, requests):
    """The samples once every request is counted and the slot is free, or after half a minute."""
    deadline = time.monotonic() + 30
    while True:
        found = samples(server)
        counted = sum(number for name, number in found.items() if name.startswith("kael_requests_total"))
        if (counted == requests and not found["kael_requests_in_flight"]) or time.monotonic() > deadline:
            return found
        time.sleep(0.1)


def complaints(sent, found, log):
    """What is not as it should be."""
    outcomes = {status: int(found[f'kael_requests_total{{status="{status}"}}']) for status in
                ("ok", "busy", "rejected", "error", "cancelled")}  # fmt: skip
    seen = {
        "ok": sent[200],
        "busy": sent[429],
        "rejected": sent[413] + sent[422],
        "error": sent[500],
        "cancelled": 0,
    }
    reasons = sum(int(number) for name, number in found.items() if name.startswith("kael_rejected_total"))
    rules = {
        "every request is counted once": sum(outcomes.values()) == sent.total(),
        "no outcome has fewer than its clients saw": all(outcomes[name] >= seen[name] for name in seen),
        "what is above that are clients that left": sum(outcomes.values()) - sum(seen.values()) == sent[LEFT],
        "no client saw another status": sent.total() == sum(seen.values()) + sent[LEFT],
        "nothing failed": outcomes["error"] == 0,
        "a reason for each that was refused": reasons == outcomes["busy"] + outcomes["rejected"],
        "the slot is free": found["kael_requests_in_flight"] == 0,
        "the log has no error": not re.search(r"ERROR|Traceback", log),
    }
    print(f"counted: {outcomes}")
    return [rule for rule, holds in rules.items() if not holds]


def main():
    parser = argparse.ArgumentParser(
        prog="scripts/stress-server",
        description=__doc__.partition("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--requests", type=int, default=10_000)
    parser.add_argument("--connections", type=int, default=50)
    parser.add_argument("--queue", type=int, default=0, help="requests that may wait for the slot")
    parser.add_argument("--data", type=pathlib.Path, help="folder of the model (the one that kael ships)")
    options = parser.parse_args()
    flags = ["--queue", options.queue, *([] if options.data is None else ["--data", options.data])]
    with server_process.serve(*flags) as server:
        started = time.monotonic()
        stress = Stress(server, options.requests)
        stress.run(options.connections, int(_WARM_UP * options.requests))
        wait_for_the_end(server, stress.sent.total())
        before = resident_bytes(server.pid)
        stress.run(options.connections, options.requests)
        found = wait_for_the_end(server, stress.sent.total())
        growth = resident_bytes(server.pid) - before
        seconds = time.monotonic() - started
        server.signal()
        code = server.wait()
    print(f"{stress.sent.total()} requests over {stress.by_kind.total()} connections in {seconds:.1f} s")
    print(f"seen by clients: {dict(stress.sent)}")
    wrong = complaints(stress.sent, found, server.stderr) + stress.failures
    print(f"memory grew by {growth / 1e6:.1f} MB after the first {_WARM_UP:.0%}")
    if growth > MAX_GROWTH_BYTES:
        wrong.append("memory grew")
    if code != 0:
        wrong.append(f"the server ended with {code}")
    for rule in wrong:
        print(f"NOT SO: {rule}")
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
