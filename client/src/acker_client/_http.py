"""HTTP/1.1 of the client's own connections: writes requests and reads responses, without I/O.

An httpx request costs several times as much CPU as its socket. A response of the common form is read here, any other by
h11, as httpx does it.
"""

import logging
import re
from base64 import b64encode
from collections.abc import Generator
from typing import TYPE_CHECKING, NamedTuple

import h11

from acker_client import _transport
from acker_client._core.responses import Response
from acker_client._http_library import httpx

if TYPE_CHECKING:
    from acker_client._core.requests import Request

MAX_CONNECTIONS = 100
MAX_IDLE = 20
IDLE_S = 5.0
"""httpx's limits: how many connections there are, how many of them idle, and for how many seconds."""

READ_SIZE = 65_536
MAX_HEAD_SIZE = 100 * 1024
"""httpx's limit of the bytes before a body."""

_PLAIN_HEAD = re.compile(rb"HTTP/1\.1 ([2-5][0-9]{2}) ([ -~]*)\r\n((?:[-A-Za-z0-9]+:[ \t]*[!-~][ -~]*\r\n)+)\r\n")
_FIELD = re.compile(rb"([-a-z0-9]+):[ \t]*([ -~]*)\r\n")
_NOT_PLAIN = frozenset((b"transfer-encoding", b"content-encoding", b"set-cookie", b"upgrade"))
_WITHOUT_BODY = (b"204", b"304")
_MAX_LENGTH_DIGITS = 18
"""A length of more digits is left to h11, which refuses it."""

_HEADERS = {
    "Accept": "*/*",
    "Accept-Encoding": "gzip, deflate",
    "Connection": "keep-alive",
    "User-Agent": f"python-{httpx.__name__}/{httpx.__version__}",
}
"""What httpx adds to a request."""

_log = logging.getLogger(httpx.__name__)

Read = tuple[Response, bool]
"""A response, and whether the connection may be used again."""

Reading = Generator[None, bytes, Read]
"""Takes the further bytes of a response as they come, empty at the end of the connection."""


class _PlainHead(NamedTuple):
    """The head of a response with a body of known length, with nothing more to observe; ``end`` is where that ends."""

    status: int
    reason: str
    body_at: int
    end: int
    retry_after: str


class HttpCodec:
    """What goes out with every request to one acker: its address, headers and cookies; with the timeout and TLS."""

    def __init__(self, route: _transport.Route) -> None:
        url = route.url
        self.route = route
        self.tls = httpx.create_ssl_context() if url.scheme == "https" else None
        if self.tls is not None:
            self.tls.set_alpn_protocols(["http/1.1"])
        self.host = url.raw_host.decode()
        self.port = url.port or (443 if self.tls else 80)
        self._prefix = url.raw_path.decode().rstrip("/")
        self._cookies = httpx.Cookies()
        self._has_cookies = False
        headers = {"Host": url.netloc.decode(), **_HEADERS, **route.headers, **_login(url)}
        self._head = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
        self._refusal = _refusal(headers)

    def timeout_s(self, request: "Request") -> float:
        """Return the seconds that each step of a request may take: to connect, to write, to read once."""
        return request.timeout_s(self.route.timeout_s)

    def write(self, request: "Request") -> bytes:
        """Write a request as httpx would send it. Head and body are one, so that the service reads both at once.

        Raises `httpx.LocalProtocolError` for a header that cannot be sent.
        """
        if self._refusal:
            raise httpx.LocalProtocolError(self._refusal)
        headers = "".join([f"{name}: {value}\r\n" for name, value in request.headers().items()])
        if self._has_cookies:
            headers += self._cookie_line(request)
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            headers += f"Content-Length: {len(request.body)}\r\n"
        head = f"{request.method} {self._prefix}{request.path} HTTP/1.1\r\n{self._head}{headers}\r\n"
        return head.encode("latin-1") + request.body

    def read(self, request: "Request", data: bytes) -> Read | Reading:
        """Read the response to a request, of which ``data`` came first; or return what `read_on` goes on with.

        Raises `httpx.RemoteProtocolError` and `httpx.DecodingError`, as `read_on` does.
        """
        head = _plain_head(data)
        if head is None:
            return read_on(self._read_any(request, data))
        if head.end > len(data):
            return read_on(self._read_rest(request, head, data))
        return self._plain(request, head, data)

    def _plain(self, request: "Request", head: _PlainHead, data: bytes) -> Read:
        if _log.isEnabledFor(logging.INFO):
            self._log(request, head.status, head.reason)
        body = data[head.body_at : head.end]
        return Response(status=head.status, body=body, retry_after=head.retry_after), len(data) == head.end

    def _read_rest(self, request: "Request", head: _PlainHead, data: bytes) -> Reading:
        """Read the rest of a body of known length."""
        parts, missing = [data], head.end - len(data)
        while missing > 0:
            more = yield
            if not more:
                raise httpx.RemoteProtocolError("the connection ended within a response")
            parts.append(more)
            missing -= len(more)
        return self._plain(request, head, b"".join(parts))

    def _read_any(self, request: "Request", data: bytes) -> Reading:
        """Read any response by h11. Its cookies are sent back with further requests, as to a load balancer."""
        try:
            (head, body), reusable = yield from _read_by_h11(request, data)
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error)) from error
        sent = httpx.Request(request.method, self._url(request))
        found = httpx.Response(head.status_code, headers=head.headers.raw_items(), content=body, request=sent)
        self._cookies.extract_cookies(found)
        self._has_cookies = bool(self._cookies)
        if _log.isEnabledFor(logging.INFO):
            self._log(request, head.status_code, head.reason.decode("ascii", "ignore"))
        return _transport.to_response(found), reusable

    def _log(self, request: "Request", status: int, reason: str) -> None:
        """Log a request in httpx's words."""
        _log.info('HTTP Request: %s %s "%s %d %s"', request.method, self._url(request), "HTTP/1.1", status, reason)

    def _url(self, request: "Request") -> str:
        return f"{self.route.origin}{self._prefix}{request.path}"

    def _cookie_line(self, request: "Request") -> str:
        sent = httpx.Request(request.method, self._url(request))
        self._cookies.set_cookie_header(sent)
        return "".join([f"Cookie: {value}\r\n" for value in sent.headers.get_list("Cookie")])


def read_on(reading: Reading, data: bytes | None = None) -> Read | Reading:
    """Go on reading with what came next, None to begin: return the response, or again what goes on."""
    try:
        reading.send(data)  # type: ignore[arg-type]  # a generator is begun with None
    except StopIteration as end:
        read: Read = end.value
        return read
    return reading


def _login(url: httpx.URL) -> dict[str, str]:
    """Return the header of a login in the URL."""
    if not url.userinfo:
        return {}
    return {"Authorization": f"Basic {b64encode(f'{url.username}:{url.password}'.encode()).decode()}"}


def _refusal(headers: dict[str, str]) -> str:
    """Describe what about these headers HTTP forbids; empty if nothing."""
    try:
        h11.Request(method="GET", target="/", headers=list(headers.items()))
    except h11.LocalProtocolError as error:
        return str(error)
    return ""


def _plain_head(data: bytes) -> _PlainHead | None:
    """Read the head of a response where nothing but its body follows; None for all others."""
    match = _PLAIN_HEAD.match(data)
    if match is None or match[1] in _WITHOUT_BODY:
        return None
    found = _FIELD.findall(match[3].lower())
    fields = dict(found)
    length = fields.get(b"content-length", b"")
    if (
        len(fields) < len(found)
        or not length.isdigit()
        or len(length) > _MAX_LENGTH_DIGITS
        or not _NOT_PLAIN.isdisjoint(fields)
    ):
        return None
    if fields.get(b"connection", b"keep-alive") != b"keep-alive":
        return None
    return _PlainHead(
        status=int(match[1]),
        reason=match[2].decode(),
        body_at=match.end(),
        end=match.end() + int(length),
        retry_after=fields.get(b"retry-after", b"").decode(),
    )


def _read_by_h11(request: "Request", data: bytes) -> Generator[None, bytes, tuple[tuple[h11.Response, bytes], bool]]:
    """Read any response; see `Reading`."""
    connection = h11.Connection(h11.CLIENT, max_incomplete_event_size=MAX_HEAD_SIZE)
    connection.send(h11.Request(method=request.method, target="/", headers=[("Host", "acker")]))
    connection.send(h11.EndOfMessage())
    head, body = None, bytearray()
    while True:
        if not data and connection.their_state is h11.SEND_RESPONSE:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
        connection.receive_data(data)
        while (event := connection.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.Response):
                head = event
            elif isinstance(event, h11.Data):
                body += event.data
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                done = connection.our_state is connection.their_state is h11.DONE
                return (head, bytes(body)), done and not connection.trailing_data[0]
            elif not isinstance(event, h11.InformationalResponse):
                raise httpx.RemoteProtocolError("the connection is used for something else")
        data = yield
