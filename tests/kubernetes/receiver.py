"""Receives webhooks in a pod, and tells over GET which roots they told of: [root, outcome, time] of each."""

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 8080
_received: "list[tuple[str, str, float]]" = []


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        now, body = time.time(), self.rfile.read(int(self.headers["Content-Length"]))
        for completion in json.loads(body)["data"]["completions"]:
            _received.append((completion["root_id"], completion["outcome"], now))
        self._answer(b"")

    def do_GET(self) -> None:
        self._answer(json.dumps(_received).encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - of the standard library
        """Write nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("", PORT), _Handler).serve_forever()
