"""A connection through a proxy, for the commands of operators: httpx speaks to all kinds of proxies."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from urllib.parse import SplitResult

from acker_client._http_library import httpx
from acker_client._proxy import Proxy


class ProxiedConnection:
    """Sends requests through a proxy, with those methods of `http.client.HTTPConnection` that the commands use."""

    sock: Final = None

    def __init__(self, acker: SplitResult, proxy: Proxy, *, timeout: float) -> None:
        self.timeout: float | None = timeout
        base = f"{acker.scheme}://{acker.netloc}"
        self._client = httpx.Client(base_url=base, proxy=proxy.url, trust_env=False, verify=httpx.create_ssl_context())

    def request(self, method: str, target: str, body: bytes | None = None, headers: Mapping[str, str] = {}) -> None:
        """Prepare a request; `getresponse` sends it."""
        self._request = self._client.build_request(method, target, content=body, headers=headers, timeout=self.timeout)

    def getresponse(self) -> "ProxiedResponse":
        """Send the request; give the response once its head has come. Raises ``OSError``."""
        with _as_os_errors():
            return ProxiedResponse(self._client.send(self._request, stream=True))

    def close(self) -> None:
        """Close the connection."""
        self._client.close()


class ProxiedResponse:
    """A response as `http.client.HTTPResponse` gives it; every failure is an ``OSError``."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status = response.status_code

    def read(self) -> bytes:
        """Read the body."""
        with _as_os_errors():
            return self._response.read()

    def __iter__(self) -> Iterator[bytes]:
        """Read the body line by line."""
        with _as_os_errors():
            for line in self._response.iter_lines():
                yield line.encode()


@contextmanager
def _as_os_errors() -> Iterator[None]:
    try:
        yield
    except httpx.RequestError as error:
        raise OSError(str(error) or type(error).__name__) from error
