"""Asks the service which roots have ended: many callers share a request, and an answer counts for a second."""

import logging
import threading
from typing import TYPE_CHECKING, Any

from acker_protocol.ids import parse_id
from acker_protocol.wire.fields import ROOT_IDS

from acker_client._core import requests, responses
from acker_client._core.effects import Flow, WaitTurn
from acker_client._core.waiters import SendTurns, Waiter
from acker_client.errors import InvalidResponse

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from acker_client._core.retry import RetrySession

ANSWER_S = 0.5
"""How long a caller waits for an answer."""
REMEMBERED_S = 1.0
"""How long an answer counts, and how long nothing is asked after a failure."""

_log = logging.getLogger("acker_client")


class _Question(Waiter):
    """A caller that waits for an answer about these roots, at the longest ``until``; a failure settles it, too."""

    __slots__ = ("roots", "until")

    def __init__(self, roots: "Collection[int]", *, until: float) -> None:
        super().__init__()
        self.roots = roots
        self.until = until
        self.pending = 1

    def settle(self) -> None:
        """End the wait."""
        self.pending = 0
        self.wake()


class EndedRoots:
    """What a client knows of the ends of roots.

    Callers that ask at the same time share requests: one of them has the turn and asks for all, and while its request
    is in flight the next one gathers. A request is sent once, and after a failure nothing is asked for a second, so
    that an acker that is away keeps nobody for longer than one request may take.
    """

    def __init__(self, session: "RetrySession") -> None:
        self._session = session
        self._clock = session.config.clock
        self.forget()

    def forget(self) -> None:
        """Begin without knowledge and callers, as in the child of a fork."""
        self.turns = SendTurns()
        self._lock = threading.Lock()
        self._questions: list[_Question] = []
        self._known: dict[int, tuple[float, bool]] = {}
        self._quiet_until = 0.0
        self._is_failing = False

    def have_ended(self, roots: "Collection[int]") -> Flow[bool]:
        """Whether all these roots are finished; False where one is not, is unknown, or no answer comes in time."""
        unknown = self._not_known(roots)
        if unknown:
            yield from self._ask(_Question(unknown, until=self._clock.monotonic() + ANSWER_S))
        return bool(roots) and all(self._has_ended(root_id) for root_id in roots)

    def note(self, roots: "Iterable[int]") -> None:
        """Remember roots that this client has ended, or was told of that they have."""
        self._remember(dict.fromkeys(roots, True))

    def _not_known(self, roots: "Collection[int]") -> list[int]:
        """Return the roots to ask about: none where nothing is asked now, or one is known not to have ended."""
        now = self._clock.monotonic()
        known = [self._known.get(root_id, (0.0, False)) for root_id in roots]
        if now < self._quiet_until or any(until > now and not has_ended for until, has_ended in known):
            return []
        return [root_id for root_id, (until, _) in zip(roots, known, strict=True) if until <= now]

    def _has_ended(self, root_id: int) -> bool:
        until, has_ended = self._known.get(root_id, (0.0, False))
        return has_ended and until > self._clock.monotonic()

    def _ask(self, question: _Question) -> Flow[None]:
        """Ask when it is this caller's turn, unless another one has asked for it by then."""
        with self._lock:
            self._questions.append(question)
        try:
            while not question.is_settled:
                if not self.turns.take(question):
                    yield WaitTurn(waiter=question)
                elif (left_s := question.until - self._clock.monotonic()) > 0:
                    yield from self._ask_for_all(limit_s=left_s)
                else:
                    return
        finally:
            self.turns.leave(question)
            with self._lock:
                if question in self._questions:
                    self._questions.remove(question)

    def _ask_for_all(self, *, limit_s: float) -> Flow[None]:
        """Send one request for the callers so far, as many as one request may name."""
        asking, roots = self._take_together()
        has_failed = False
        try:
            yield from self._read_states(roots, limit_s=limit_s)
            self._is_failing = False
        except Exception as error:  # noqa: BLE001 - whatever it is: what cannot be asked about counts as wanted
            has_failed = True
            self._quiet_until = self._clock.monotonic() + REMEMBERED_S
            self._log_first(error)
        self._settle(None if has_failed else asking)

    def _read_states(self, roots: "Collection[int]", *, limit_s: float) -> Flow[None]:
        """Ask about roots, and remember the answer. Raises what is wrong with it."""
        request = requests.read_root_states(self._session.topology, roots, limit_s=limit_s)
        response = yield request
        assert response is not None, "a request is answered with a response"
        failure = responses.classify(request, response)
        if failure is not None:
            raise failure.error
        self._remember(_ends_in(response))

    def _settle(self, asking: "Collection[_Question] | None") -> None:
        """End the wait of these callers; of all, where none are named."""
        with self._lock:
            settled = set(self._questions if asking is None else asking)
            self._questions = [each for each in self._questions if each not in settled]
        for each in settled:
            each.settle()

    def _take_together(self) -> "tuple[list[_Question], dict[int, None]]":
        roots: dict[int, None] = {}
        asking: list[_Question] = []
        with self._lock:
            for question in self._questions:
                if asking and len(roots) + len(question.roots) > ROOT_IDS:
                    break
                asking.append(question)
                roots.update(dict.fromkeys(question.roots))
        return asking, roots

    def _remember(self, ends: dict[int, bool]) -> None:
        """Remember for each root whether it has ended; what counts no more goes."""
        now = self._clock.monotonic()
        with self._lock:
            for root_id, has_ended in ends.items():
                self._known.pop(root_id, None)
                self._known[root_id] = (now + REMEMBERED_S, has_ended)
            while self._known and next(iter(self._known.values()))[0] <= now:
                del self._known[next(iter(self._known))]

    def _log_first(self, error: Exception) -> None:
        """Log the first failure; the next answer ends it."""
        if not self._is_failing:
            self._is_failing = True
            said = str(error) or type(error).__name__
            _log.warning("whether tuples are still wanted cannot be asked (%s): they count as wanted", said)


def _ends_in(response: Any) -> dict[int, bool]:
    """Read which roots have ended. Raises `InvalidResponse`."""
    try:
        roots = responses.document(response)["roots"]
        return {parse_id(root["root_id"]): root["state"] == "finished" for root in roots}
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidResponse(f"the answer holds no states of roots: {error!r}") from None
