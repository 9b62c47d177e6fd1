"""Logs once that a server of the store does not answer or refuses writes, and once that it does so no more."""

import logging
import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any

from acker_protocol.errors import ServiceError, StoreFull, StoreUnavailable
from redis.crc import key_slot
from redis.exceptions import AuthenticationError, BusyLoadingError, ClusterDownError
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from acker_service.metrics.logs import ProblemLog
from acker_service.redis.calls import Call
from acker_service.redis.errors import PermissionDenied, errors_in, is_denied, is_slot_moving, refuses_writes

UNTIL = "until then requests are answered store_unavailable, and the acker tries again"
REPLACED = "other servers have the keys of the store now"
CHECK = "check the address in ACKER_REDIS_URL (--redis-url)"

_SLOT_MOVES = (
    "slot %s of the cluster moves from %s to another server, key by key; if the move has stopped half-way, end it, "
    f"docs/logs.md says how; {UNTIL}"
)

_log = logging.getLogger(__name__)
_CONNECTING = re.compile(r"Error -?\d+ connecting to \S+ (.*?)\.?")
"""How redis-py words an error of the system."""


class Trouble(Enum):
    """What keeps a server from serving."""

    AWAY = "away"
    LOADING = "loading"
    LOGIN = "login"
    REFUSES_WRITES = "refuses writes"


ANSWERS_NOTHING = (Trouble.AWAY, Trouble.LOADING, Trouble.LOGIN)
DISCOVERY = "discovery"
SLOTS = "slots"
"""Problems of the whole store; those of a server are its name and its `Trouble`."""


class OutageLog:
    """Notes the replies of the servers of a store, each by its address without a login.

    A ``supervised`` server is one that a supervisor starts again: it logs when the server ends and runs again.
    """

    def __init__(self, problems: ProblemLog | None = None, *, supervised: bool = False) -> None:
        self._problems = ProblemLog(_log) if problems is None else problems
        self._supervised = supervised
        self._is_found = self._is_complete = True

    def note(self, server: str, calls: Sequence[Call[Any]], replies: Sequence[object]) -> None:
        """Note the replies to calls. One that writes and succeeds shows that the server takes writes again."""
        errors = errors_in(replies)
        if not errors and not self._problems:
            return
        for error in errors:
            self.failed(server, error)
        if self._problems and not any(trouble_of(error) in ANSWERS_NOTHING for error in errors):
            self.answered(server)
            if not errors and any(call.confirm for call in calls):
                self._problems.end((server, Trouble.REFUSES_WRITES), "the store at %s takes writes again", server)
        self._note_slots(server, calls, replies)

    def _note_slots(self, server: str, calls: Sequence[Call[Any]], replies: Sequence[object]) -> None:
        """Note slots that move key by key. Each is a problem of its own: other slots of its server are served."""
        for call, reply in zip(calls, replies, strict=True):
            if is_slot_moving(reply):
                slot = key_slot(call.key.encode())
                self._problems.begin(f"slot {slot}", _SLOT_MOVES, slot, server)
            elif self._problems and not isinstance(reply, Exception):
                slot = key_slot(call.key.encode())
                self._problems.end(f"slot {slot}", "slot %s of the cluster has arrived", slot)

    def answered(self, server: str) -> None:
        """Note that a server answers. Servers that were looked for in vain need not be found then."""
        for trouble in ANSWERS_NOTHING:
            if self._problems.end((server, trouble), "the store at %s answers again", server):
                self._problems.forget(DISCOVERY)
        self._end_search()

    def failed(self, server: str, error: BaseException) -> None:
        """Note an error, if it is one of the server and not of the command."""
        trouble = trouble_of(error)
        if trouble is None or (self._supervised and _shows_restart(trouble, error)):
            return
        if trouble is Trouble.LOADING and (server, Trouble.AWAY) in self._problems:
            trouble = Trouble.AWAY  # it has been started, and answers before long: no line between those two
        if trouble in ANSWERS_NOTHING:
            for other in ANSWERS_NOTHING:
                if other is not trouble:
                    self._problems.forget((server, other))
        self._problems.begin((server, trouble), "the store at %s %s", server, _describe(server, trouble, error))

    def undiscovered(self, error: StoreUnavailable) -> None:
        """Note that the servers of the store could not be discovered."""
        self._is_found = False
        self._problems.begin(
            DISCOVERY,
            "the servers of the store are not found: %s; start its sentinels or nodes, or %s; %s",
            *(error.detail, CHECK, UNTIL),
        )

    def discovered(self, servers: Iterable[str], *, complete: bool) -> None:
        """Note the servers that are used from now on, and whether every key has one."""
        self._is_found = True
        self._is_complete = complete
        self._end_search()
        self._problems.end_all(lambda problem: _server_of(problem) not in (None, *servers), REPLACED)

    def unserved(self) -> None:
        """Note that a part of a cluster has no server."""
        self._is_complete = False
        self._problems.begin(SLOTS, "no server serves a part of the cluster: start its servers; %s", UNTIL)

    def _end_search(self) -> None:
        """End the search for servers; no other discovery may come that could, so that replies do it as well."""
        if self._is_found:
            self._problems.end(DISCOVERY, "the servers of the store are found again")
        if self._is_complete:
            self._problems.end(SLOTS, "every part of the cluster is served again")


def _server_of(problem: object) -> str | None:
    return problem[0] if isinstance(problem, tuple) else None


def trouble_of(error: object) -> Trouble | None:
    """Return what trouble an error of redis-py or a `ServiceError` shows; None if it is one of the command."""
    if isinstance(error, ServiceError) and error.__cause__ is not None:
        error = error.__cause__
    if is_denied(error):
        return Trouble.REFUSES_WRITES
    if isinstance(error, ServiceError):
        return Trouble.REFUSES_WRITES if not isinstance(error, StoreFull) else None
    if isinstance(error, BusyLoadingError):
        return Trouble.LOADING
    if isinstance(error, AuthenticationError):
        return Trouble.LOGIN
    if isinstance(error, (RedisConnectionError, RedisTimeoutError, OSError, ClusterDownError)):
        return Trouble.AWAY
    return Trouble.REFUSES_WRITES if refuses_writes(error) else None


def _shows_restart(trouble: Trouble, error: BaseException) -> bool:
    """Whether the error is one of a server that has ended or starts. One that does not reply in time still runs."""
    late = isinstance(error.__cause__ or error, (RedisTimeoutError, TimeoutError))
    return trouble is Trouble.LOADING or (trouble is Trouble.AWAY and not late)


def detail_of(error: BaseException) -> str:
    """Return the text of an error of redis-py, or of the system's error behind it."""
    if isinstance(error, (PermissionDenied, ServiceError)):
        return error.detail
    if isinstance(error, (RedisTimeoutError, TimeoutError)):
        return "no reply in time"
    behind: BaseException | None = error
    while behind is not None:
        if isinstance(behind, OSError) and behind.strerror:
            return behind.strerror.lower()
        behind = behind.__cause__ or behind.__context__
    found = _CONNECTING.fullmatch(str(error))
    return found[1].lower() if found else str(error).rstrip(".")


def _describe(server: str, trouble: Trouble, error: BaseException) -> str:
    """Describe a trouble, and say what to do."""
    cause = error.__cause__ if isinstance(error, ServiceError) and error.__cause__ is not None else error
    what = detail_of(cause)
    match trouble:
        case Trouble.LOADING:
            return f"loads its data; {UNTIL}"
        case Trouble.LOGIN:
            what = "it asks for a password" if what.startswith("HELLO must") else what
            return f"refuses the login: {what}; check user and password in ACKER_REDIS_URL (--redis-url); {UNTIL}"
        case Trouble.REFUSES_WRITES:
            return f"refuses writes: {what}; {UNTIL}"
        case Trouble.AWAY if isinstance(cause, ClusterDownError):
            return f"answers that its cluster is down: start the servers that are missing; {UNTIL}"
        case Trouble.AWAY:
            advice = "" if server.startswith("/") else f"start it, or {CHECK}; "
            return f"does not answer: {what}; {advice}{UNTIL}"
