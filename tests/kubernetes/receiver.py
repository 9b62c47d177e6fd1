"""Receives webhooks in a pod. A GET of a path answers which roots came there, as [root, outcome, time] of each."""

import json
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT = 8080
_received: "dict[str, list[tuple[str, str, float]]]" = {}
"""By path: each load has its own, and is told of its own roots alone."""


class Handler(BaseHTTPRequestHandler):
    """Answers both."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        now, body = time.time(), self.rfile.read(int(self.headers["Content-Length"]))
        for completion in json.loads(body)["data"]["completions"]:
            _received.setdefault(self.path, []).append((completion["root_id"], completion["outcome"], now))
        self._answer(b"")

    def do_GET(self) -> None:
        self._answer(json.dumps(_received.get(self.path, [])).encode())

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - of the standard library
        """Write nothing."""


if __name__ == "__main__":
    ThreadingHTTPServer(("", PORT), Handler).serve_forever()
