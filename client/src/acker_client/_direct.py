"""HTTP/1.1 without httpx, for clients that use nothing else of it: writes requests and reads responses, without I/O.

An httpx request costs several times as much CPU as its socket. A response of the common form is read here, any other by
h11, as httpx does it.
"""

import logging
import os
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any, ClassVar

import h11
import httpcore
import httpx

from acker_client import _transport
from acker_client._core.responses import Response

if TYPE_CHECKING:
    import ssl

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

_SENDING: "dict[type, Callable[[], tuple[object, ...]]]" = {
    httpx.Client: lambda: (
        httpx.Client.send,
        httpx.HTTPTransport.handle_request,
        httpcore.ConnectionPool.handle_request,
        httpcore.HTTPConnection.handle_request,
    ),
    httpx.AsyncClient: lambda: (
        httpx.AsyncClient.send,
        httpx.AsyncHTTPTransport.handle_async_request,
        httpcore.AsyncConnectionPool.handle_async_request,
        httpcore.AsyncHTTPConnection.handle_async_request,
    ),
}
"""What tracing and mocks replace: the functions by which each kind of client sends a request."""

_FOLDERS = (httpx.__path__[0] + os.sep, httpcore.__path__[0] + os.sep)
_log = logging.getLogger(httpx.__name__)
_trace_log = logging.getLogger(httpcore.__name__)

Reading = Generator[None, bytes, tuple[Response, bool]]
"""Takes the bytes of a response as they come, empty at the end of the connection. Gives the response, and whether the
connection may be used again. Raises `httpx.RemoteProtocolError` and `httpx.DecodingError`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _PlainHead:
    """The head of a response with a body of known length, with nothing more to observe; ``end`` is where that ends."""

    status: int
    reason: str
    body_at: int
    end: int
    retry_after: str


class DirectHttp:
    """What goes out with every request of one httpx client: its address, headers, timeout and TLS context.

    ``enabled`` switches all direct connections off.
    """

    enabled: ClassVar[bool] = True

    def __init__(self, client: httpx.Client | httpx.AsyncClient, tls: "ssl.SSLContext | None") -> None:
        url = client.base_url
        self.tls = tls
        self.host, self.port = url.raw_host.decode(), url.port or (443 if tls else 80)
        self.origin = f"{url.scheme}://{url.netloc.decode()}"
        self._client, self._url = client, url
        self._sending = _SENDING[type(client)]
        self._checked: tuple[object, ...] = ()
        self._prefix = url.raw_path.decode().rstrip("/")
        headers = [(b"Host", url.netloc), *client.headers.raw]
        h11.Request(method="GET", target="/", headers=headers)  # raises where a value is not allowed in a header
        self._head = b"".join(b"%s: %s\r\n" % header for header in headers).decode("latin-1")

    def may_send(self) -> bool:
        """Whether the client is as it was, and httpx does no more than send: no cookies, no tracing, no mocks.

        Where it is False, httpx sends the request.
        """
        client = self._client
        return (
            client.base_url is self._url
            and not client.is_closed
            and not client.cookies.jar._cookies  # type: ignore[attr-defined]  # noqa: SLF001 - len() counts one by one
            and self._is_unpatched()
            and not _trace_log.isEnabledFor(logging.DEBUG)
        )

    def _is_unpatched(self) -> bool:
        """Whether the functions by which httpx sends are its own; those that were found so are not checked again."""
        functions = self._sending()
        if functions != self._checked:
            if not all(map(_is_httpxs, functions)):
                return False
            self._checked = functions
        return True

    def timeout_s(self, request: "Request") -> float:
        """Give the seconds that each step of a request may take: to connect, to write, to read once."""
        timeout_s = self._client.timeout.read
        assert timeout_s is not None, "the factory set it"
        return timeout_s + request.wait_s

    def write(self, request: "Request") -> bytes:
        """Write a request as httpx would send it. Head and body are one, so that the service reads both at once."""
        headers = "".join([f"{name}: {value}\r\n" for name, value in request.headers().items()])
        if request.body or request.method in ("POST", "PUT", "PATCH"):
            headers += f"Content-Length: {len(request.body)}\r\n"
        head = f"{request.method} {self._prefix}{request.path} HTTP/1.1\r\n{self._head}{headers}\r\n"
        return head.encode("latin-1") + request.body

    def read(self, request: "Request") -> Reading:
        """Read the response to a request."""
        data = yield
        head = _plain_head(data)
        if head is None:
            return (yield from self._read_any(request, data))
        parts, missing = [data], head.end - len(data)
        while missing > 0:
            more = yield
            if not more:
                raise httpx.RemoteProtocolError("the connection ended within a response")
            parts.append(more)
            missing -= len(more)
        if _log.isEnabledFor(logging.INFO):
            self._log(request, head.status, head.reason)
        body = b"".join(parts)[head.body_at : head.end]
        return Response(status=head.status, body=body, retry_after=head.retry_after), missing == 0

    def _read_any(self, request: "Request", data: bytes) -> Reading:
        """Read a response by h11. Its cookies go into the client: from then on httpx sends."""
        try:
            (head, body), reusable = yield from _read_by_h11(request, data)
        except h11.RemoteProtocolError as error:
            raise httpx.RemoteProtocolError(str(error)) from error
        sent = _transport.build_request(self._client, request)
        found = httpx.Response(head.status_code, headers=head.headers.raw_items(), content=body, request=sent)
        self._client.cookies.extract_cookies(found)
        if _log.isEnabledFor(logging.INFO):
            self._log(request, head.status_code, head.reason.decode("ascii", "ignore"))
        return _transport.to_response(found), reusable

    def _log(self, request: "Request", status: int, reason: str) -> None:
        """Log a request in httpx's words."""
        url = f"{self.origin}{self._prefix}{request.path}"
        _log.info('HTTP Request: %s %s "%s %d %s"', request.method, url, "HTTP/1.1", status, reason)


def direct_http(client: Any) -> DirectHttp | None:
    """Give what sends in place of an httpx client with its own transport; None where httpx does more than send.

    That is a login in the URL, a header that it refuses, or what `may_send` names. A client with a proxy has none.
    """
    if not DirectHttp.enabled or type(client) not in _SENDING or client.base_url.userinfo:
        return None
    tls = httpx.create_ssl_context() if client.base_url.scheme == "https" else None
    if tls is not None:
        tls.set_alpn_protocols(["http/1.1"])
    try:
        return DirectHttp(client, tls)
    except h11.LocalProtocolError:
        return None


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


def _is_httpxs(function: object) -> bool:
    if type(function) is not FunctionType or hasattr(function, "__wrapped__"):
        return False
    return function.__code__.co_filename.startswith(_FOLDERS)
