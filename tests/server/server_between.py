"""What may stand between a browser and a server, and give answers of its own."""

from __future__ import annotations

import contextlib
import http.client
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from server_live import SECONDS


class Between:
    """A reverse proxy, with the server's paths below its `prefix`."""

    def __init__(self, server, prefix=""):
        self.answers = {}  # its own, by path: status, content type or None, body
        self.gates = {}  # events that an answer waits for, by path
        between = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                path = self.path.removeprefix(prefix)
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                if path in between.gates:
                    between.gates[path].wait(SECONDS)
                with contextlib.suppress(OSError):  # of a browser that has left
                    if path in between.answers:
                        self.send(*between.answers[path])
                    else:
                        self.forward(path, body)

            do_POST = do_GET

            def send(self, status, content_type, body):
                self.send_response(status)
                if content_type:
                    self.send_header("Content-Type", content_type)
                self.end_headers()
                self.wfile.write(body.encode())

            def forward(self, path, body):
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=SECONDS)
                with contextlib.closing(connection):
                    headers = {"Accept": self.headers["Accept"]}
                    connection.request(self.command, path, body, headers)
                    response = connection.getresponse()
                    self.send(response.status, response.headers["Content-Type"], "")
                    while data := response.read1():
                        self.wfile.write(data)

            def log_message(self, *_):
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), name="between")
        self._thread.start()

    def close(self):
        for gate in self.gates.values():
            gate.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(SECONDS)
