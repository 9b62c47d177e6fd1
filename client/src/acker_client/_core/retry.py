"""Sends a request again until it is answered, in the one retry loop for every driver; or a single time."""

import logging
from typing import TYPE_CHECKING

from acker_protocol.errors import ServiceError

from acker_client._core import requests
from acker_client._core.effects import Flow, Sleep
from acker_client._core.hot_path import TopologySession
from acker_client._core.responses import CERTIFICATE_ADVICE, OK, SERVER_ERROR, Failure, Response, classify, is_admitted
from acker_client._core.topology import TopologyInfo, read_topology_info
from acker_client.errors import AckerError, InvalidResponse, RetriesExhausted

if TYPE_CHECKING:
    from acker_client._core.effects import EffectResult
    from acker_client._core.requests import Request
    from acker_client._core.responses import NoResponse
    from acker_client.config import ClientConfig

INFO_MAX_AGE_S = 60.0
"""After this long the topology is read again, since somebody may have changed it."""

_UNTRUSTED = "CERTIFICATE_VERIFY_FAILED"
"""What OpenSSL calls a certificate that is not signed by an authority that it knows, or is for another name."""

_log = logging.getLogger("acker_client")


class RetrySession(TopologySession):
    """Requests to one topology. ``cached_info`` is what is known of it, read when it is first needed.

    ``address`` is the acker's URL, for messages.
    """

    cached_info: TopologyInfo | None

    def __init__(self, *, topology: str, config: "ClientConfig", address: str = "the acker") -> None:
        super().__init__()
        self.topology = topology
        self.config = config
        self._address = address
        self._info_read_at = 0.0
        self._ever_reached = False
        self._failing = False
        self._nobody_listens: RetriesExhausted | None = None

    def send(
        self, request: "Request", *, since: float | None = None, answer: "EffectResult | Exception" = None
    ) -> Flow[Response]:
        """Send a request until it is answered; ``since`` is when it was first sent, if that was before.

        ``answer`` is what came of the first attempt, if that was made already.
        Raises the `ServiceError` or `InvalidResponse` that ends it, or `RetriesExhausted` when its time is over.
        """
        now = self.config.clock.monotonic()
        if answer is None and since is not None and now - since > self.retry_limit_s():
            raise _exhausted(request)
        return self._attempts(request, since=now if since is None else since, answer=answer)

    def is_taken(self, request: "Request", answer: "EffectResult | Exception") -> bool:
        """Whether the answer to a first attempt says that every operation was taken, so that nothing is left to do."""
        if not isinstance(answer, Response) or answer.status != OK:
            return False
        try:
            if not is_admitted(request, answer):
                return False
        except InvalidResponse:
            return False
        self._ever_reached = True
        self._failing = False
        return True

    @property
    def is_info_recent(self) -> bool:
        """Whether the topology, if it was read, does not have to be read again yet."""
        return self.config.clock.monotonic() - self._info_read_at < INFO_MAX_AGE_S

    def topology_info(self) -> Flow[TopologyInfo]:
        """Yield what the client follows of the topology; reads it the first time."""
        if self.cached_info is None:
            self._cache((yield from self.send(requests.read_topology(self.topology))))
        assert self.cached_info is not None
        return self.cached_info

    def refresh_topology(self) -> Flow[None]:
        """Read the topology again if that was long ago; without an answer, what is known stays."""
        if self.cached_info is None or self.is_info_recent:
            return
        request = requests.read_topology(self.topology)
        self._info_read_at = self.config.clock.monotonic()
        response = yield request
        assert response is not None, "a request is answered with a response"
        if isinstance(response, Response) and classify(request, response) is None:
            self._cache(response)

    def retry_limit_s(self) -> float:
        """Return the seconds after which a request is not sent again."""
        wanted = self.config.retry_timeout
        return wanted if self.cached_info is None else min(wanted, self.cached_info.retry_limit_s)

    def _attempts(
        self, request: "Request", *, since: float, answer: "EffectResult | Exception" = None
    ) -> Flow[Response]:
        may_be_done = False
        for delay in self.config.backoff_delays():
            if isinstance(answer, Exception):
                raise answer
            response = (yield request) if answer is None else answer
            answer = None
            assert response is not None, "a request is answered with a response"
            self._ever_reached = self._ever_reached or isinstance(response, Response) or not response.refused_by
            failure = classify(request, response)
            self._failing = self._failing and failure is not None and failure.retryable
            if failure is None or (may_be_done and _was_done(request, failure)):
                assert isinstance(response, Response)
                return response
            if not failure.retryable:
                raise failure.error
            may_be_done = may_be_done or _may_be_done(response)
            yield from self._backoff(request, failure, since=since, delay=delay)
        raise AssertionError("the delays never end")

    def _backoff(self, request: "Request", failure: Failure, *, since: float, delay: float) -> Flow[None]:
        """Wait before the next attempt. None is made too late, since the service might have forgotten the key."""
        limit_s = self._limit_s()
        left_s = limit_s - self._age_s(since) - 0.001
        if self._is_starting and left_s > 0:
            delay = min(delay, left_s)  # the last attempt is made at the limit
        pause = max(delay, failure.wait_s)
        self._check_deadline(request, failure, age_s=self._age_s(since) + pause)
        self._log_first(request, failure, limit_s=limit_s)
        yield Sleep(seconds=pause)
        if request.key is not None and self.cached_info is None:
            yield from self._learn_window(request, since=since)
            self._check_deadline(request, failure, age_s=self._age_s(since))

    def _learn_window(self, request: "Request", *, since: float) -> Flow[None]:
        """Read the topology: for how long the service remembers the key decides whether it may be sent again."""
        try:
            self._cache((yield from self._attempts(requests.read_topology(self.topology), since=since)))
        except AckerError as error:
            if error is self._nobody_listens:
                raise
            raise _exhausted(request, error) from error

    def _cache(self, response: Response) -> None:
        self.cached_info = read_topology_info(response)
        self._info_read_at = self.config.clock.monotonic()

    def _age_s(self, since: float) -> float:
        return self.config.clock.monotonic() - since

    @property
    def _is_starting(self) -> bool:
        """Whether no server was ever reached, so that nothing can have been applied, and that is bounded."""
        return not self._ever_reached and self.config.startup_timeout is not None

    def _limit_s(self) -> float:
        limit_s = self.retry_limit_s()
        return min(limit_s, self.config.startup_timeout or 0.0) if self._is_starting else limit_s

    def _check_deadline(self, request: "Request", failure: Failure, *, age_s: float) -> None:
        if age_s <= self._limit_s():
            return
        if self._is_starting:
            self._nobody_listens = _nobody_listens(failure)
            raise self._nobody_listens from failure.error
        raise _exhausted(request, failure.error, _where(failure)) from failure.error

    def _log_first(self, request: "Request", failure: Failure, *, limit_s: float) -> None:
        """Log the first failure of an outage; the next answer ends it."""
        if not self._failing:
            self._failing = True
            where = _where(failure) or self._address
            said = str(failure.error) or type(failure.error).__name__
            what = f"{request.method} {request.path}"
            _log.warning("%s failed at %s (%s); it is sent again for up to %g s", what, where, said, limit_s)


def send_once(request: "Request") -> Flow[Response]:
    """Send a request a single time. Raises `RetriesExhausted` when its answer does not come."""
    response = yield request
    assert response is not None, "a request is answered with a response"
    failure = classify(request, response)
    if failure is None:
        assert isinstance(response, Response)
        return response
    if isinstance(failure.error, AckerError):
        raise failure.error
    raise RetriesExhausted(
        f"the answer to {request.method} {request.path} did not come, and it is not sent again ({failure.error})",
        outcome_unknown=not failure.refused_by,
    ) from failure.error


def _may_be_done(response: "Response | NoResponse") -> bool:
    """Whether a request without an answer to it may have been done: its answer was lost, or the service failed."""
    return response.status >= SERVER_ERROR if isinstance(response, Response) else not response.refused_by


def _was_done(request: "Request", failure: Failure) -> bool:
    """Whether a repeat did not find what it was to delete."""
    return isinstance(failure.error, ServiceError) and failure.error.code == request.done_code


def _where(failure: Failure) -> str:
    """Describe where no connection could be made; empty if one was."""
    return failure.refused_by if failure.proxy is None else f"{failure.refused_by} through {failure.proxy}"


def _exhausted(request: "Request", error: Exception | None = None, refused_by: str = "") -> RetriesExhausted:
    where = f"no acker answers at {refused_by}: " if refused_by else ""
    said = f" ({where}{error})" if error else ""
    return RetriesExhausted(
        f"the result of {request.method} {request.path} is not known, and it is too late to send it again{said}",
        outcome_unknown=request.key is not None,
    )


def _nobody_listens(failure: Failure) -> RetriesExhausted:
    advice = "Start one (`acker serve`), or set the URL (ACKER_URL for Acker.from_env())"
    if failure.proxy is not None:
        advice = failure.proxy.advice
    elif _UNTRUSTED in str(failure.error):
        advice = CERTIFICATE_ADVICE
    return RetriesExhausted(
        f"no acker answers at {_where(failure)}: {failure.error}. {advice}; startup_timeout says how long a client "
        "waits for the first answer"
    )
