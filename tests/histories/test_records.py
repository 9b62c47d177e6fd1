"""The file of a history keeps what was sent and answered, and is read up to where its client was killed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from acker_protocol.operations import OperationState
from acker_protocol.wire.packed import CONTENT_TYPE, encode_packed

from tests.histories.records import History, read
from tests.histories.roots import read_histories
from tests.histories.test_explain import ROOT, A, ack, init

BATCH = "/v1/topologies/t/batch"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "history"


@pytest.fixture
def history(path: Path) -> Iterator[History]:
    with History(path) as history:
        yield history


def exchange(history: History, target: str, body: object, answer: object, *, status: int = 200, key: str = "k") -> None:
    number = history.sent("POST", target, key=key, content_type="application/json", body=json.dumps(body).encode())
    history.answered(number, status, replayed=False, body=json.dumps(answer).encode())


def document(edge: int) -> dict[str, object]:
    return {"op": "ack", "root_id": f"{ROOT:016x}", "edge_id": f"{edge:016x}"}


def test_what_is_written_is_read_up_to_the_record_that_a_client_died_over(path: Path, history: History) -> None:
    exchange(history, BATCH, {"ops": [document(A)]}, {"accepted": 1, "results": ["early"]})
    whole = path.read_bytes()
    assert [type(record).__name__ for record in read(path)] == ["Began", "Sent", "Answered"]
    path.write_bytes(whole[:-1])
    assert [type(record).__name__ for record in read(path)] == ["Began", "Sent"]
    (root,) = read_histories([path]).roots.values()
    assert [event.states for event in root.events] == [()]


def test_a_history_is_never_written_over(path: Path, history: History) -> None:
    with pytest.raises(FileExistsError):
        History(path)


def test_attempts_of_a_request_are_known_by_its_key_and_count_once(path: Path, history: History) -> None:
    for status, answer in ((503, {"code": "store_unavailable"}), (200, {"accepted": 1, "results": ["early"]})):
        exchange(history, BATCH, {"ops": [document(A)]}, answer, status=status)
    exchange(history, BATCH, {"ops": [document(A)]}, {"accepted": 1, "results": ["duplicate"]}, key="other")
    histories = read_histories([path])
    (root,) = histories.roots.values()
    assert (histories.operations, histories.requests, histories.attempts, histories.unknown) == (2, 2, 3, 1)
    first, second, third = root.events
    assert first.request == second.request != third.request


def test_every_form_of_a_request_and_of_its_answer_is_read(path: Path, history: History) -> None:
    single = {name: value for name, value in document(A).items() if name != "op"}
    exchange(history, "/v1/topologies/t/ack", single, {"root_id": "", "state": "early"}, key="1")
    exchange(history, "/v1/topologies/t/ack", single, {"code": "store_full"}, status=503, key="2")
    excepted = {"accepted": 1, "exceptions": [{"index": 0, "state": "store_full"}]}
    exchange(history, f"{BATCH}?results=exceptions", {"ops": [document(A), document(A)]}, excepted, key="3")
    packed = encode_packed([init(A), ack(A)])
    number = history.sent("POST", BATCH, key="4", content_type=CONTENT_TYPE, body=packed)
    history.answered(number, 200, replayed=True, body=b'{"accepted": 2, "results": ["pending", "pending"]}')
    (root,) = read_histories([path]).roots.values()
    assert [event.states for event in root.events] == [
        (OperationState.EARLY,),
        (OperationState.STORE_FULL,),
        (OperationState.STORE_FULL, None),
        (OperationState.PENDING, OperationState.PENDING),
    ]
    assert [event.replayed for event in root.events] == [False, False, False, True]


def test_an_answer_that_no_client_may_get_ends_the_audit(path: Path, history: History) -> None:
    exchange(history, BATCH, {"ops": [document(A)]}, {"code": "invalid"}, status=422)
    with pytest.raises(AssertionError, match="answered 422"):
        read_histories([path])


def test_completions_are_read_of_pages_and_of_what_was_told(path: Path, history: History) -> None:
    told = {"root_id": f"{ROOT:016x}", "outcome": "acked"}
    number = history.sent("GET", "/v1/topologies/t/spouts/s/completions?limit=1", key=None, content_type="", body=b"")
    history.answered(number, 200, replayed=False, body=json.dumps({"completions": [told], "cursor": "c"}).encode())
    history.told("webhook", json.dumps({"topology": "t", "completions": [told]}).encode())
    history.told("webhook", json.dumps({"topology": "t", "completions": [told | {"at_ms": 1}]}).encode())
    (root,) = read_histories([path]).roots.values()
    assert (root.tellings, len(root.completions)) == (3, 2)
