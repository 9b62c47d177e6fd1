"""The rate of a key: how many requests and operations a second it may send, counted by token buckets."""

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from acker_protocol.errors import Overloaded

from acker_service.http.keys import Key
from acker_service.metrics.instruments import HttpMetrics


class RateExceeded(Overloaded):
    """The key sends more than its rate; nothing was done."""

    status = 429


class TokenBucket:
    """Holds what may be sent in a second, and one at least; what takes more than it holds leaves a debt.

    So a batch of any size is admitted while there is a token, and the next one waits until the debt is paid.
    """

    __slots__ = ("_at", "_per_s", "_size", "_tokens")

    def __init__(self, per_s: float, *, now: float) -> None:
        self._per_s = per_s
        self._size = max(1.0, per_s)
        self._tokens = self._size
        self._at = now

    def wait_s(self, now: float) -> float:
        """Return in how many seconds there is a token; 0: there is one."""
        self._tokens = min(self._size, self._tokens + (now - self._at) * self._per_s)
        self._at = now
        return max(0.0, (1.0 - self._tokens) / self._per_s)

    def take(self, count: int) -> None:
        """Take tokens, more than there are, too."""
        self._tokens -= count


@dataclass(frozen=True, slots=True, kw_only=True)
class _Buckets:
    """The buckets of a key; None: that has no limit."""

    key: Key
    requests: TokenBucket | None
    operations: TokenBucket | None


class Rates:
    """Holds each key to its rate, or to its part of it where so many processes share it.

    A request is counted when its key is known, whatever it is answered; the operations of one once they are read, and
    so before they are applied. What is refused is not counted, but a request that is refused for its operations after
    its body was read has taken its token.
    """

    def __init__(self, metrics: HttpMetrics, *, parts: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self._metrics = metrics
        self._parts = parts
        self._clock = clock
        self._of: dict[bytes, _Buckets] = {}

    def install(self, keys: Iterable[Key]) -> None:
        """Hold these keys to their rates from now on; a key whose rate stays keeps its buckets."""
        before = self._of
        self._of = {}
        for key in keys:
            if key.rate is not None:
                known = before.get(key.digest)
                self._of[key.digest] = self._fill(key) if known is None or known.key.rate != key.rate else known

    def take_request(self, key: Key) -> None:
        """Count a request. Raises `RateExceeded`."""
        if (buckets := self._of.get(key.digest)) is not None and buckets.requests is not None:
            self._check(key, buckets.requests, "requests")
            buckets.requests.take(1)

    def check_operations(self, key: Key) -> None:
        """Refuse a request with operations while there is a debt. Raises `RateExceeded`."""
        if (buckets := self._of.get(key.digest)) is not None and buckets.operations is not None:
            self._check(key, buckets.operations, "operations")

    def take_operations(self, key: Key, count: int) -> None:
        """Count operations; they may be more than there are tokens, unless there is none. Raises `RateExceeded`."""
        if (buckets := self._of.get(key.digest)) is not None and buckets.operations is not None:
            self._check(key, buckets.operations, "operations")
            buckets.operations.take(count)

    def _fill(self, key: Key) -> _Buckets:
        assert key.rate is not None
        now = self._clock()
        requests, operations = (
            None if per_s is None else TokenBucket(per_s / self._parts, now=now)
            for per_s in (key.rate.requests, key.rate.operations)
        )
        return _Buckets(key=key, requests=requests, operations=operations)

    def _check(self, key: Key, bucket: TokenBucket, what: str) -> None:
        if (wait_s := bucket.wait_s(self._clock())) > 0:
            self._metrics.rate_limited[key.name].inc()
            assert key.rate is not None
            raise RateExceeded(
                f"the key {key.name} may send {getattr(key.rate, what):g} {what} a second; nothing was done",
                retry_after_ms=math.ceil(wait_s * 1_000),
            )
