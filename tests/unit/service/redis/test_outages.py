"""Which errors are troubles of a server, and what is logged of them."""

import logging

import pytest
from acker_protocol.errors import StoreFull, StoreUnavailable
from acker_service.metrics.logs import ProblemLog
from acker_service.redis import functions
from acker_service.redis.calls import nothing, read
from acker_service.redis.errors import PermissionDenied, label, suggests_moved_slots, to_problem
from acker_service.redis.node import server_name
from acker_service.redis.outages import OutageLog, Trouble, trouble_of
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    AuthenticationError,
    BusyLoadingError,
    ClusterDownError,
    MovedError,
    NoPermissionError,
    OutOfMemoryError,
    ReadOnlyError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

SERVER = "store:6379"
WRITE = functions.topologies.barrier("key")
READ = read("GET", "key", decode=nothing)


@pytest.fixture
def outages(caplog: pytest.LogCaptureFixture) -> OutageLog:
    caplog.set_level(logging.INFO)
    return OutageLog(ProblemLog(logging.getLogger("acker_service.redis"), settle_s=0))


@pytest.mark.parametrize(
    ("error", "trouble"),
    [
        (RedisConnectionError("refused"), Trouble.AWAY),
        (RedisTimeoutError("late"), Trouble.AWAY),
        (OSError(111, "Connection refused"), Trouble.AWAY),
        (ClusterDownError("CLUSTERDOWN"), Trouble.AWAY),
        (BusyLoadingError("LOADING"), Trouble.LOADING),
        (AuthenticationError("WRONGPASS"), Trouble.LOGIN),
        (NoPermissionError("NOPERM"), Trouble.REFUSES_WRITES),
        (PermissionDenied("grant it"), Trouble.REFUSES_WRITES),
        (StoreUnavailable("only 0 of 1 replicas have it"), Trouble.REFUSES_WRITES),
        (ResponseError("MISCONF Redis is configured to save"), Trouble.REFUSES_WRITES),
        (ResponseError("NOREPLICAS Not enough good replicas"), Trouble.REFUSES_WRITES),
        (ReadOnlyError("You can't write against a read only replica."), Trouble.REFUSES_WRITES),
        (OutOfMemoryError("OOM"), None),
        (StoreFull("full"), None),
        (MovedError("1 store:6380"), None),
        (AskError("1 store:6380"), None),
        (ResponseError("ERR Function not found"), None),
        (b"stale", None),
    ],
)
def test_an_error_is_a_trouble_of_the_server_or_one_of_the_command(error: object, trouble: Trouble | None) -> None:
    assert trouble_of(error) is trouble


def test_a_server_that_does_not_answer_is_logged_once_and_once_that_it_answers(
    outages: OutageLog, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        outages.note(SERVER, [READ], [RedisConnectionError("Error 111 connecting to store:6379. Connection refused.")])
    for _ in range(3):
        outages.note(SERVER, [READ], [b"value"])
    away, back = caplog.messages
    assert away.startswith("the store at store:6379 does not answer: connection refused; start it, or check")
    assert back.startswith("the store at store:6379 answers again, after ")


MOVING = [
    AskError("9529 127.0.0.1:6380"),
    TryAgainError("Multiple keys request during rehashing of slot"),
    ResponseError("Script attempted to access a non local key in a cluster node script: f1, on @user_function:110."),
    ResponseError("Attempted to access a non local key in a cluster node script: on @user_function:110."),
    ResponseError(
        "Unable to execute command 'mget' in script because undeclared keys were accessed during rehashing of the slot"
    ),
]
"""How Redis 7.0.15, Redis 8.0.2 and Valkey 9.1.2 refuse a command on a slot that moves key by key."""


@pytest.mark.parametrize("error", MOVING, ids=lambda error: str(error)[:20])
def test_a_slot_that_moves_is_named_in_the_log_the_problem_and_the_metric(
    outages: OutageLog, caplog: pytest.LogCaptureFixture, error: ResponseError
) -> None:
    slot = key_slot(b"key")
    for _ in range(3):
        outages.note(SERVER, [READ, WRITE], [error, error])
    outages.note(SERVER, [read("GET", "other", decode=nothing)], [b"value"])
    outages.note("store:6380", [READ], [b"value"])
    moves, arrived = caplog.messages
    assert moves.startswith(f"slot {slot} of the cluster moves from store:6379 to another server, key by key; ")
    assert arrived.startswith(f"slot {slot} of the cluster has arrived, after ")
    assert to_problem(error).detail.startswith("a slot of the cluster moves to another server")
    assert label(error) == "moving"
    assert suggests_moved_slots(error)


def test_a_slot_that_moves_is_not_forgotten_when_servers_are_discovered(
    outages: OutageLog, caplog: pytest.LogCaptureFixture
) -> None:
    outages.note(SERVER, [READ], [MOVING[0]])
    outages.discovered(["store:6380"], complete=True)
    outages.note("store:6380", [READ], [MOVING[1]])
    assert len(caplog.messages) == 1


def test_of_a_supervised_server_only_what_the_supervisor_does_not_see_is_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    problems = ProblemLog(logging.getLogger("acker_service.redis"), settle_s=0)
    outages = OutageLog(problems, supervised=True)
    unavailable = StoreUnavailable("the store does not answer")
    unavailable.__cause__ = RedisConnectionError("Connection reset by peer")
    for ended in (RedisConnectionError("refused"), OSError(111, "refused"), BusyLoadingError("LOADING"), unavailable):
        outages.note(SERVER, [READ], [ended])
    outages.note(SERVER, [READ], [b"value"])
    assert not caplog.messages
    outages.note(SERVER, [READ], [RedisTimeoutError("late")])
    outages.note(SERVER, [WRITE], [b"value"])
    frozen, back = caplog.messages
    assert "does not answer: no reply in time" in frozen
    assert "answers again" in back


def test_a_server_that_refuses_writes_takes_them_again_only_when_a_write_succeeds(
    outages: OutageLog, caplog: pytest.LogCaptureFixture
) -> None:
    outages.note(SERVER, [WRITE], [StoreUnavailable("only 0 of 1 replicas have it")])
    outages.note(SERVER, [READ], [b"value"])
    outages.answered(SERVER)
    assert len(caplog.messages) == 1
    outages.note(SERVER, [WRITE], [b"1"])
    assert [message.partition(";")[0].partition(", after")[0] for message in caplog.messages] == [
        "the store at store:6379 refuses writes: only 0 of 1 replicas have it",
        "the store at store:6379 takes writes again",
    ]


def test_a_cause_that_changes_is_logged_and_the_end_once(outages: OutageLog, caplog: pytest.LogCaptureFixture) -> None:
    for error in (BusyLoadingError("LOADING"), RedisConnectionError("refused"), AuthenticationError("WRONGPASS")):
        outages.note(SERVER, [READ], [error])
    outages.note(SERVER, [READ], [b"value"])
    assert [message.split()[4] for message in caplog.messages] == ["loads", "does", "refuses", "answers"]


def test_a_server_that_was_away_and_loads_its_data_is_still_the_same_trouble(
    outages: OutageLog, caplog: pytest.LogCaptureFixture
) -> None:
    for reply in (RedisConnectionError("refused"), BusyLoadingError("LOADING"), BusyLoadingError("LOADING"), b"value"):
        outages.note(SERVER, [READ], [reply])
    assert [message.split()[4] for message in caplog.messages] == ["does", "answers"]


def test_a_login_without_a_password_is_described_in_our_words(
    outages: OutageLog, caplog: pytest.LogCaptureFixture
) -> None:
    outages.note(SERVER, [READ], [AuthenticationError("HELLO must be called with the client already authenticated")])
    assert "refuses the login: it asks for a password; check user and password" in caplog.messages[0]


def test_a_server_that_answers_again_ends_the_search_for_servers_too(
    outages: OutageLog, caplog: pytest.LogCaptureFixture
) -> None:
    outages.failed(SERVER, RedisConnectionError("refused"))
    outages.undiscovered(StoreUnavailable("no server says where the store's primaries are"))
    outages.answered(SERVER)
    outages.discovered([SERVER], complete=True)
    assert [message.split()[-1] for message in caplog.messages[2:]] == ["s"]
    assert caplog.messages[2].startswith("the store at store:6379 answers again")


def test_a_server_that_is_replaced_ends_its_trouble_and_one_that_is_not_keeps_it(
    outages: OutageLog, caplog: pytest.LogCaptureFixture
) -> None:
    for server in ("one:1", "two:2"):
        outages.failed(server, RedisConnectionError("refused"))
    outages.discovered(["two:2", "three:3"], complete=True)
    outages.discovered(["two:2", "three:3"], complete=True)
    assert caplog.messages[2:] == ["other servers have the keys of the store now"]
    outages.answered("two:2")
    assert len(caplog.messages) == 4


def test_servers_that_are_not_found_and_slots_without_one_are_logged_once_each(
    outages: OutageLog, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(3):
        outages.undiscovered(StoreUnavailable("no server says where the store's primaries are"))
        outages.unserved()
    outages.discovered(["one:1"], complete=False)
    outages.discovered(["one:1"], complete=True)
    assert [message.partition(":")[0].partition(", after")[0] for message in caplog.messages] == [
        "the servers of the store are not found",
        "no server serves a part of the cluster",
        "the servers of the store are found again",
        "every part of the cluster is served again",
    ]


def test_servers_and_slots_that_are_found_are_so_once_none_was_missing_for_a_second(
    caplog: pytest.LogCaptureFixture,
) -> None:
    now = [0.0]
    caplog.set_level(logging.INFO)
    log = OutageLog(ProblemLog(logging.getLogger("acker_service.redis"), clock=lambda: now[0]))
    for _ in range(2):
        log.undiscovered(StoreUnavailable("no server says where the store's primaries are"))
        log.unserved()
        now[0] += 2
        log.answered(SERVER)  # though others are missing
        log.undiscovered(StoreUnavailable("no server says where the store's primaries are"))
        log.unserved()
        log.discovered([SERVER], complete=True)
        now[0] += 2
        log.answered(SERVER)
    assert [message.rpartition(" after ")[2] for message in caplog.messages[2:4]] == ["4 s", "4 s"]
    assert len(caplog.messages) == 8


def test_a_cluster_that_is_down_is_no_server_to_be_started(
    outages: OutageLog, caplog: pytest.LogCaptureFixture
) -> None:
    outages.note(SERVER, [READ], [ClusterDownError("The cluster is down")])
    assert "store:6379 answers that its cluster is down: start the servers that are missing; " in caplog.messages[0]


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("redis://user:hunter2@store:6379/0?password=hunter2", "store:6379"),
        ("unix://user:hunter2@/run/redis.sock?password=hunter2", "/run/redis.sock"),
        ("unix:///run/redis.sock", "/run/redis.sock"),
    ],
)
def test_a_server_is_named_without_its_login(url: str, name: str) -> None:
    assert server_name(url) == name
