"""A server on a real port, in a thread of the test's process, and clients as simple as sockets can be."""

from __future__ import annotations

import asyncio
import contextlib
import http.client
import io
import json
import socket
import struct
import threading
import time
from dataclasses import dataclass

from tornado.netutil import bind_sockets

from server import create_app
from server.serve import start, stop

SECONDS = 20  # after which any wait of a test has failed
LONGER = 2 * SECONDS  # than a client waits, so that a loop that is held up is noticed


@dataclass
class Response:
    status: int
    headers: http.client.HTTPMessage
    body: bytes

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def events(self):
        """The events of a stream, [DONE] as None."""
        texts = self.body.decode().split("\n\n")
        assert texts.pop() == "", "the last event has no end"
        assert all(text.startswith("data: ") for text in texts), texts
        data = [text.removeprefix("data: ") for text in texts]
        return [None if text == "[DONE]" else json.loads(text) for text in data]

    @property
    def text(self):
        """The text of a stream."""
        return "".join(event["text"] for event in self.events if event is not None and "text" in event)


class Client:
    """Talks to the server on a port of this machine."""

    def __init__(self, port):
        self.port = port
        self._clients = []

    def close_clients(self):
        for client in self._clients:
            client.close()

    def connect(self, receive_buffer=None):
        """A connection, closed at the end of the test."""
        client = socket.socket()
        self._clients.append(client)
        client.settimeout(SECONDS)
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if receive_buffer is not None:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        client.connect(("127.0.0.1", self.port))
        return client

    def request(self, method, path, body=None, headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=SECONDS)
        with contextlib.closing(connection):
            connection.request(method, path, body=body, headers=dict(headers))
            response = connection.getresponse()
            return Response(response.status, response.headers, response.read())

    def get(self, path, **headers):
        return self.request("GET", path, headers=headers)

    def post(self, body):
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", "/generate", data)

    def generate(self, prompt="hi", **fields):
        return self.post({"prompt": prompt, **fields})

    def begin(self, prompt="hi", **fields):
        """A client that has sent its request and reads nothing."""
        client = self.connect()
        client.sendall(message({"prompt": prompt, **fields}))
        return client


class Server(Client):
    """Serves `generator` from construction to `close`."""

    def __init__(self, generator, settings=None):
        self.generator = generator
        self._settings = settings
        self.failures = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="server")
        self._thread.start()
        assert self._ready.wait(SECONDS)
        super().__init__(self._port)

    async def _run(self):
        self.loop = asyncio.get_running_loop()
        self.loop.set_exception_handler(lambda _, context: self.failures.append(context))
        self._ending = asyncio.Event()
        self._seconds = 5.0
        self.app = create_app(self.generator, self._settings)
        sockets = bind_sockets(0, "127.0.0.1")
        self._port = sockets[0].getsockname()[1]
        self.http_server = start(self.app, sockets)
        self._ready.set()
        await self._ending.wait()
        self.drained = await stop(self.http_server, self.app, self._seconds)

    def close(self, seconds=5.0):
        """Ends the server as SIGTERM does. Says whether everything ended in time."""
        if self._thread.is_alive():
            self._seconds = seconds
            self.loop.call_soon_threadsafe(self._ending.set)
            self._thread.join(SECONDS)
            assert not self._thread.is_alive()
        assert self.failures == []
        return self.drained

    @contextlib.contextmanager
    def hold_loop(self):
        """The server sees nothing of what comes until the end of the with block."""
        held, released = threading.Event(), threading.Event()

        def hold():
            held.set()
            released.wait(LONGER)

        self.loop.call_soon_threadsafe(hold)
        assert held.wait(SECONDS)
        try:
            yield
        finally:
            released.set()

    # What the server knows

    def sample(self, name, **labels):
        return self.generator.metrics.registry.get_sample_value(name, labels)

    def count(self, status):
        return self.sample("kael_requests_total", status=status)

    def counts(self):
        """Requests by outcome, those with a count."""
        outcomes = ("ok", "busy", "rejected", "error", "cancelled")
        return {outcome: int(self.count(outcome)) for outcome in outcomes if self.count(outcome)}

    def is_free(self):
        return not self.generator.slot.locked()

    @property
    def received(self):
        """Tokens of the last generation that have come to the loop."""
        bridge = self.generator._bridge
        return bridge.received if bridge else 0

    def wait_until_free(self):
        wait_for(self.is_free)


def message(body, *headers, path="/generate"):
    """The bytes of a POST."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = [f"POST {path} HTTP/1.1", "Host: test", f"Content-Length: {len(data)}", *headers, "", ""]
    return "\r\n".join(head).encode() + data


def wait_for(condition, seconds=SECONDS):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.002)


def read_response(client, method="POST"):
    """The one response that comes next. Another one behind it may be lost."""
    response = http.client.HTTPResponse(client, method=method)
    response.begin()
    return Response(response.status, response.headers, response.read())


class _OneReader(io.BufferedReader):
    """In place of a socket for several responses, of which each makes itself a file, and closes it."""

    def makefile(self, mode):
        return self

    def close(self):
        pass


def read_responses(client, count):
    """The responses that come next, which may come together."""
    reader = _OneReader(socket.SocketIO(client, "r"))
    return [read_response(reader) for _ in range(count)]


def read_until(client, mark):
    data = b""
    while mark not in data:
        chunk = client.recv(65536)
        assert chunk, f"the connection ended before {mark!r}: {data!r}"
        data += chunk
    return data


def read_to_end(client):
    data = b""
    while chunk := client.recv(65536):
        data += chunk
    return data


def reset(client):
    """Closes with RST."""
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    client.close()
