"""Requests of callers of an acker, each sent until it succeeds, with an account of those that failed."""

import http.client
import json
import secrets
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

import httpx
from acker_protocol import routes

TIMEOUT_S = 20.0
REPEATS_S = 180.0
"""For so long a request that failed is sent again, with its key."""

AGAIN_S = 0.5
FAULTS = (OSError, http.client.HTTPException, httpx.HTTPError)


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """A request that failed; ``status`` is 0 and ``code`` names the fault if no answer came."""

    at: float
    request: str
    status: int
    code: str
    retryable: bool


@dataclass(slots=True, kw_only=True)
class Account:
    """What all callers met, by their kind."""

    requests: Counter[str] = field(default_factory=Counter)
    failures: dict[str, list[Failure]] = field(default_factory=dict)
    again_s: float = 0.0
    """How long the request that took longest was sent again, until it succeeded."""

    unanswered: list[str] = field(default_factory=list)
    """Requests that were sent again and again and never succeeded."""

    def fail(self, kind: str, failure: Failure) -> None:
        """Note a failed request of a kind of caller."""
        self.failures.setdefault(kind, []).append(failure)

    def failed(self) -> dict[str, int]:
        """Return how many requests failed, by kind of caller; a kind that met none is left out."""
        return {kind: len(failures) for kind, failures in sorted(self.failures.items())}


class Link(Protocol):
    """How a caller sends a request, and gets the status and the body of its answer."""

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        """Send it once. Raises one of `FAULTS`."""

    def close(self) -> None:
        """Leave what is open."""


class RawLink:
    """http.client, which never looks at a kept connection before it uses it again."""

    def __init__(self, url: str, *, keeps: bool) -> None:
        self._host = urlsplit(url).netloc
        self._keeps = keeps
        self._connection: http.client.HTTPConnection | None = None

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        self._connection = self._connection or http.client.HTTPConnection(self._host, timeout=TIMEOUT_S)
        try:
            self._connection.request(method, path, body, headers)
            answer = self._connection.getresponse()
            content = answer.read()
        except FAULTS:
            self.close()
            raise
        if answer.will_close or not self._keeps:
            self.close()
        return answer.status, content

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


class HttpxLink:
    """httpx with its pool; it repeats nothing."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=TIMEOUT_S, trust_env=False)

    def send(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> tuple[int, bytes]:
        answer = self._client.request(method, path, content=body, headers=headers)
        return answer.status_code, answer.content

    def close(self) -> None:
        self._client.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Sends the requests of one kind of caller over a link."""

    kind: str
    link: Link
    account: Account
    token: str = ""

    def ask(self, method: str, path: str, document: Any = None) -> Any:
        """Send a request until it succeeds, and return its answer, None if it never does; the first attempt counts."""
        body = None if document is None else json.dumps(document).encode()
        headers = authorization(self.token) | {"Content-Type": "application/json"}
        if method == "POST":
            headers[routes.IDEMPOTENCY_KEY] = secrets.token_hex(8)
        self.account.requests[self.kind] += 1
        failed_at: float | None = None
        while True:
            status, answer = self._attempt(method, path, body, headers)
            now = time.monotonic()
            if isinstance(answer, bytes):
                if failed_at is not None:
                    self.account.again_s = max(self.account.again_s, now - failed_at)
                return json.loads(answer) if answer else {}
            if failed_at is None:
                self.account.fail(self.kind, answer)
                failed_at = now
            if now > failed_at + REPEATS_S:
                self.account.unanswered.append(f"{method} {path}: {status} {answer.code}")
                return None
            time.sleep(AGAIN_S)

    def _attempt(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, bytes | Failure]:
        try:
            status, content = self.link.send(method, path, body, headers)
        except FAULTS as fault:
            return 0, broken(f"{method} {path}", fault)
        return status, content if status < 300 else refused(f"{method} {path}", status, content)


def authorization(token: str) -> dict[str, str]:
    """Return the header with a key; none without."""
    return {"Authorization": f"Bearer {token}"} if token else {}


def refused(request: str, status: int, content: bytes) -> Failure:
    """Read the acker's problem, or what something else answered."""
    try:
        problem = json.loads(content)
    except ValueError:
        problem = {"code": content[:80].decode(errors="replace")}
    code, retryable = str(problem.get("code")), bool(problem.get("retryable"))
    return Failure(at=time.time(), request=request, status=status, code=code, retryable=retryable)


def broken(request: str, fault: BaseException) -> Failure:
    """Describe a request without an answer."""
    return Failure(at=time.time(), request=request, status=0, code=f"{type(fault).__name__}: {fault}", retryable=True)
