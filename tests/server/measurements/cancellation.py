"""Measures how long the slot stays taken after its client has left. Prints a table.

    scripts/measure-cancellation [--data DIR] [--rounds 20] [--threads 1]

The server runs in a process of its own and notes when its slot is free; both processes read one clock. Ends
with 1 when a generation ran on for more than one token, or one layer of the prompt, and 10 ms.
"""

from __future__ import annotations

import argparse
import asyncio
import http.client
import itertools
import json
import multiprocessing
import pathlib
import random
import socket
import statistics
import sys
import time

from server_live import message, reset

GRACE_SECONDS = 0.010
_NOTICE_SECONDS = 0.05  # in which the server has read what was sent

_TRIES = 5

PROMPT_CHARACTERS = 4000


def run_server(data, threads, pipe):
    """Serves until the pipe is closed, and sends the time of each release through it."""
    from tornado.netutil import bind_sockets

    import kael
    from server import Settings, load_app
    from server.serve import start, stop

    kael.set_num_threads(threads)
    # Every prompt is to take its time.
    app = load_app(data or kael.default_model_path(), settings=Settings(no_prefix_cache=True))
    passed_on = app.generator.on_release

    def on_release():
        pipe.send(time.monotonic())
        passed_on()

    async def serve():
        sockets = bind_sockets(0, "127.0.0.1")
        server = start(app, sockets)
        app.generator.on_release = on_release
        config = getattr(app.generator.model, "config", None)
        pipe.send((sockets[0].getsockname()[1], config.layers, config.max_positions))
        loop, ended = asyncio.get_running_loop(), asyncio.Event()
        loop.add_reader(pipe.fileno(), ended.set)
        await ended.wait()
        loop.remove_reader(pipe.fileno())
        await stop(server, app, 10)

    asyncio.run(serve())


def fin(client):
    client.close()


def half_close(client):
    client.shutdown(socket.SHUT_WR)


# What a client has sent behind its request, its receive buffer, and how it leaves.
WAYS = {
    "FIN": (b"", None, fin),
    "RST": (b"", None, reset),
    "half-close": (b"", None, half_close),
    "line end, FIN": (b"\r\n", None, fin),
    "line end, RST": (b"\r\n", None, reset),
    "next request, FIN": (message({"prompt": "next", "max_tokens": 1}), None, fin),
    "stopped reading, FIN": (b"", 2304, fin),
}


class Measurement:
    def __init__(self, data, threads):
        context = multiprocessing.get_context("spawn")
        self._pipe, other = context.Pipe()
        self._process = context.Process(target=run_server, args=(data, threads, other), daemon=True)
        self._process.start()
        other.close()
        self._port, self.layers, self.context = self._pipe.recv()

    def close(self):
        self._pipe.close()
        self._process.join(20)

    def released(self):
        """The time of the next release of the slot."""
        if not self._pipe.poll(60):
            raise SystemExit("the slot did not become free within 60 s")
        return self._pipe.recv()

    def ask(self, **fields):
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=600)
        connection.request("POST", "/generate", json.dumps(fields))
        answer = json.load(connection.getresponse())
        connection.close()
        self.released()
        return answer

    def leave_often(self, rounds, *request):
        """What ``leave`` returns, so often; without those whose generation had ended before."""
        seconds = []
        for _ in range(_TRIES * rounds):
            seconds += [one for one in [self.leave(*request)] if one >= 0]
            if len(seconds) == rounds:
                return seconds
        raise SystemExit("the model is too fast: its generations end before a client can leave")

    def leave(self, way, stream, prompt, tokens, span):
        """Begins a request, leaves within so many seconds, and returns those from then to the free slot."""
        trailing, receive_buffer, act = WAYS[way]
        client = socket.socket()
        client.settimeout(60)
        if receive_buffer is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.connect(("127.0.0.1", self._port))
        client.sendall(
            message({"prompt": prompt, "max_tokens": tokens, "stream": stream, "top_k": 1}) + trailing
        )
        time.sleep(_NOTICE_SECONDS + span * random.random())
        left = time.monotonic()
        act(client)
        seconds = self.released() - left
        client.close()
        if "next request" in way and self._pipe.poll(0.2):  # it may have had its turn
            self.released()
        return seconds


def long_prompt(measurement):
    """A prompt that fills most of the context, with the seconds that one layer takes for it."""
    prompt = ("the cat sat on the mat and " * 1000)[:PROMPT_CHARACTERS]
    tokens = 1
    while True:
        answer = measurement.ask(prompt=prompt, max_tokens=tokens, temperature=0)
        if "error" not in answer:
            break
        prompt = prompt[: len(prompt) * 3 // 4]
    return prompt, answer["timings"]["first_token_seconds"] / measurement.layers


def _ms(seconds):
    return f"{1e3 * seconds:.1f} ms"


def main():
    parser = argparse.ArgumentParser(
        prog="scripts/measure-cancellation",
        description=__doc__.partition("\n\n")[0],
        formatter_class=argparse.ArgumentDefaultsHelpFormatter,
    )
    parser.add_argument("--data", type=pathlib.Path, help="folder of the model (the one that kael ships)")
    parser.add_argument("--rounds", type=int, default=20, help="of each way to leave")
    parser.add_argument("--threads", type=int, default=1, help="to compute with")
    options = parser.parse_args()
    random.seed(0)
    measurement = Measurement(options.data, options.threads)
    tokens = min(512, measurement.context - 16)
    token_seconds = measurement.ask(prompt="hi", max_tokens=min(32, tokens), temperature=0)["timings"][
        "seconds_per_token"
    ]
    prompt, layer_seconds = long_prompt(measurement)
    # What is asked for, in how many seconds the client leaves, and in how many the slot must be free then.
    phases = (
        ("hi", tokens, 8 * token_seconds, token_seconds + GRACE_SECONDS),
        (prompt, 1, layer_seconds * measurement.layers / 2, layer_seconds + GRACE_SECONDS),
    )
    print("| client | during tokens: median | worst | during the prompt: median | worst |")
    print("|---|---|---|---|---|")
    print(f"| at most | | {_ms(phases[0][-1])} | | {_ms(phases[1][-1])} |")
    late = False
    for way, stream in itertools.product(WAYS, (False, True)):
        if way.startswith("stopped") and not stream:
            continue
        cells = [f"{way}, {'stream' if stream else 'plain'}"]
        for text, count, span, bound in phases:
            seconds = measurement.leave_often(options.rounds, way, stream, text, count, span)
            late = late or max(seconds) > bound
            cells += [_ms(statistics.median(seconds)), _ms(max(seconds))]
        print(f"| {' | '.join(cells)} |", flush=True)
    measurement.close()
    return int(late)


if __name__ == "__main__":
    sys.exit(main())
