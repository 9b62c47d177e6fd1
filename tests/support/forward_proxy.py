"""A proxy as it stands between a company and the world: it is asked for whole URLs, and asks for them."""

import http.client
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import urlsplit

TIMEOUT_S = 90.0


class ForwardProxy(ThreadingHTTPServer):
    """Passes requests on, and keeps their targets; with ``status`` it answers each with that and a page instead."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[str] = []
        self.status: int | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: ForwardProxy

    def _serve(self) -> None:
        self.server.asked.append(self.path)
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status, kind, answer = self._pass_on(body)
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = do_PUT = do_DELETE = _serve  # noqa: N815 - names of the standard library

    def log_message(self, *_: object) -> None:
        """Print nothing."""

    def _pass_on(self, body: bytes) -> tuple[int, str, bytes]:
        if self.server.status is not None:
            return self.server.status, "text/html", b"<html>the proxy is out of order</html>"
        target = urlsplit(self.path)
        connection = http.client.HTTPConnection(target.netloc, timeout=TIMEOUT_S)
        path = f"{target.path}?{target.query}" if target.query else target.path
        connection.request(self.command, path, body or None, dict(self.headers))
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        return response.status, response.headers["Content-Type"] or "", answer


@contextmanager
def forward_proxy() -> Iterator[ForwardProxy]:
    """Run a proxy until the block is left."""
    with ForwardProxy() as proxy:
        thread = threading.Thread(target=proxy.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield proxy
        proxy.shutdown()
        thread.join()
