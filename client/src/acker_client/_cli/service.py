"""Asks an acker over HTTP, for the commands of operators.

The standard library alone, where no proxy is on the way: httpx takes a fifth of a second to import. Nothing is sent
again but a read, on a new connection where the server had closed the idle one, so the answer is what the acker says
now.
"""

import http.client
import json
import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import SplitResult, urlencode, urlsplit
from uuid import uuid4

from acker_protocol.errors import AckerError, Forbidden, ServiceError, Unauthorized, UsageError, from_document
from acker_protocol.routes import IDEMPOTENCY_KEY

from acker_client._core.responses import CERTIFICATE_ADVICE
from acker_client._proxy import Proxy, proxy_to
from acker_client.config import Address
from acker_client.errors import InvalidResponse

if TYPE_CHECKING:
    from acker_client._cli.proxied import ProxiedConnection

Connection: TypeAlias = "http.client.HTTPConnection | ProxiedConnection"

TIMEOUT_S = 10.0
REUSE_S = 1.0
"""For how long an idle connection is used again; a server closes it after some seconds."""

PAGE = 1_000


class NoAnswer(AckerError):
    """No acker answers at the address."""

    code = "no_answer"


class Service:
    """The acker at an address; not for several threads at once. Proxies are those of the client.

    ``checks_certificate`` says whether one that speaks TLS has to prove who it is: only a probe, which sends no key,
    may do without.
    """

    def __init__(self, address: Address, *, timeout_s: float = TIMEOUT_S, checks_certificate: bool = True) -> None:
        """Raises `UsageError` for an address that is none, and for a proxy that cannot be used."""
        self.url = address.url.rstrip("/")
        self._key = address.api_key
        self._timeout_s = timeout_s
        self._parts = _split(self.url)
        self._proxy = proxy_to(self.url)
        self._checks_certificate = checks_certificate
        self._connection: Connection | None = None
        self._used_at = 0.0

    def get(self, path: str, /, *, wait_s: float = 0.0, **query: Any) -> dict[str, Any]:
        """Read a document; None in the query is left out. Raises `AckerError`."""
        return self._call("GET", _with_query(path, query), None, wait_s)

    def probe(self, path: str) -> tuple[bool, str]:
        """Ask a probe: whether all is well, and what it says, in either case. Raises `AckerError`."""
        status, body = self._send("GET", path, None, 0.0)
        found = _object(body)
        if found is None or not isinstance(found.get("status"), str):
            raise _no_acker(status, path, self._proxy)
        return status < 300, found["status"]

    def send(
        self, method: str, path: str, document: Mapping[str, Any] | None = None, *, wait_s: float = 0.0
    ) -> dict[str, Any]:
        """Send a change, with a new idempotency key; its answer may take ``wait_s`` longer. Raises `AckerError`."""
        return self._call(method, path, document, wait_s)

    def delete(self, path: str, /, **query: Any) -> None:
        """Delete what is at a path. Raises `AckerError`."""
        self._call("DELETE", _with_query(path, query), None, 0.0)

    def collect(self, path: str, key: str, /, *, limit: int, cursor_name: str, **query: Any) -> dict[str, Any]:
        """Read pages of a list until ``limit`` items are read or none are left; give them as one document.

        ``scanned`` is added up, and ``cursor`` is that of the last page.
        """
        found: dict[str, Any] = {key: []}
        while True:
            page = self.get(path, limit=min(PAGE, limit - len(found[key])), **query)
            scanned = page.get("scanned")
            found = {**page, key: found[key] + page[key]} | (
                {} if scanned is None else {"scanned": found.get("scanned", 0) + scanned}
            )
            query[cursor_name] = page.get("cursor")
            if query[cursor_name] is None or len(found[key]) >= limit:
                return found

    def events(self, path: str) -> Iterator[dict[str, Any]]:
        """Read server-sent events, until the server ends the stream. Raises `AckerError`."""
        with closing(self._connect()) as connection:
            try:
                connection.request("GET", self._parts.path + path, headers=self._headers("text/event-stream"))
                response = connection.getresponse()
                if response.status != 200:
                    _document(response.status, response.read(), path, self._proxy)
                for line in response:
                    if line.startswith(b"data:"):
                        yield json.loads(line[5:])
            except (OSError, http.client.HTTPException) as error:
                raise self._no_answer(error) from None

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _call(self, method: str, path: str, document: Mapping[str, Any] | None, wait_s: float) -> dict[str, Any]:
        status, answer = self._send(method, path, document, wait_s)
        return _document(status, answer, path, self._proxy)

    def _send(self, method: str, path: str, document: Mapping[str, Any] | None, wait_s: float) -> tuple[int, bytes]:
        body = None if document is None else json.dumps(document).encode()
        headers = self._headers("application/json")
        if body is not None:
            headers["Content-Type"] = "application/json"
        if method == "POST":
            headers[IDEMPOTENCY_KEY] = uuid4().hex
        try:
            return self._exchange(method, self._parts.path + path, body, headers, wait_s)
        except (OSError, http.client.HTTPException) as error:
            self.close()
            raise self._no_answer(error) from None

    def _exchange(
        self, method: str, target: str, body: bytes | None, headers: dict[str, str], wait_s: float
    ) -> tuple[int, bytes]:
        if time.monotonic() - self._used_at > REUSE_S:
            self.close()
        reused = self._connection is not None
        connection = self._connection = self._connection or self._connect()
        connection.timeout = self._timeout_s + wait_s
        if connection.sock is not None:
            connection.sock.settimeout(connection.timeout)
        try:
            connection.request(method, target, body, headers)
            response = connection.getresponse()
            answer = response.status, response.read()
        except (ConnectionError, http.client.RemoteDisconnected):
            self.close()
            if not reused or method != "GET":
                raise
            return self._exchange(method, target, body, headers, wait_s)
        self._used_at = time.monotonic()
        return answer

    def _connect(self) -> Connection:
        if self._proxy is not None:
            from acker_client._cli.proxied import ProxiedConnection  # noqa: PLC0415 - imports httpx

            return ProxiedConnection(self._parts, self._proxy, timeout=self._timeout_s)
        host, port = self._parts.hostname or "", self._parts.port
        if self._parts.scheme == "https":
            context = None if self._checks_certificate else _without_check()
            return http.client.HTTPSConnection(host, port, timeout=self._timeout_s, context=context)
        return http.client.HTTPConnection(host, port, timeout=self._timeout_s)

    def _headers(self, accept: str) -> dict[str, str]:
        headers = {"Accept": accept}
        return headers if self._key is None else headers | {"Authorization": f"Bearer {self._key}"}

    def _no_answer(self, error: Exception) -> NoAnswer:
        said = str(error) or type(error).__name__
        if self._proxy is not None:
            return NoAnswer(f"no acker answers at {self.url} through {self._proxy}: {said}. {self._proxy.advice}")
        if isinstance(error, ssl.SSLCertVerificationError):
            return NoAnswer(f"no acker is trusted at {self.url}: {said}. {CERTIFICATE_ADVICE}")
        return NoAnswer(
            f"no acker answers at {self.url}: {said}. Start one (acker serve), or name another by --acker or ACKER_URL"
        )


def _without_check() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise UsageError(f"the acker's address {url!r} is not a URL: {error}") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise UsageError(f"the acker's address must be an http or https URL, not {url!r}")
    return parts


def _with_query(path: str, query: Mapping[str, Any]) -> str:
    given = {name: value for name, value in query.items() if value is not None}
    return f"{path}?{urlencode(given)}" if given else path


def _document(status: int, body: bytes, path: str, proxy: Proxy | None) -> dict[str, Any]:
    """Read the document of an answer. Raises `ServiceError` for a problem, `InvalidResponse` for what is neither."""
    found = _object(body) if body else {}
    if found is not None and status < 300:
        return found
    if found is not None and "code" in found:
        raise _advised(from_document(found))
    raise _no_acker(status, path, proxy)


def _object(body: bytes) -> dict[str, Any] | None:
    """Read a JSON object; None for anything else."""
    try:
        found = json.loads(body)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _no_acker(status: int, path: str, proxy: Proxy | None) -> InvalidResponse:
    by = "" if proxy is None else f" through {proxy}"
    return InvalidResponse(f"{path} was answered {status}{by}, and not as the contract has it: is this an acker?")


def _advised(error: ServiceError) -> ServiceError:
    """Return which option gives a key, where a key is what lacks."""
    if isinstance(error, Unauthorized | Forbidden):
        return type(error)(f"{error.detail} (give a key by --api-key or ACKER_API_KEY)")
    return error
