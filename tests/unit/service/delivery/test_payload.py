"""Tests the messages that webhooks receive."""

import json

from acker_protocol.operations import CompletionRecord, Outcome
from acker_service.delivery.leases import PubSubMessage, round_trips
from acker_service.delivery.payload import make_message, make_test_message, message_id
from acker_service.topologies.cursors import Position
from hypothesis import given
from hypothesis import strategies as st

from tests.support.documents import written

IDS = st.lists(st.text("0123456789abcdef", min_size=32, max_size=32), min_size=1, max_size=5, unique=True)


def completion(root_id: int, at_ms: int = 1_790_000_000_007, message_id: str | None = None) -> CompletionRecord:
    return CompletionRecord(
        root_id=root_id,
        spout_task="s",
        outcome=Outcome.ACKED,
        message_id=message_id,
        reason=None,
        component=None,
        started_ms=1_789_999_999_000,
        at_ms=at_ms,
    )


def test_a_body_is_of_the_form_of_standard_webhooks():
    completions = written(completion(1), completion(2, message_id="ü\n"))
    message = make_message(topology="t", spout_task="s-1", completions=completions)
    assert json.loads(message.body) == {
        "type": "completion.batch",
        "timestamp": "2026-09-21T14:13:20.007Z",
        "data": {"topology": "t", "spout_task": "s-1", "completions": [*map(json.loads, completions.documents)]},
    }


def test_a_post_knows_the_ids_in_it_in_their_order():
    completions = written(completion(2), completion(1))
    message = make_message(topology="t", spout_task="s", completions=completions)
    assert message.ids == tuple(done["id"] for done in json.loads(message.body)["data"]["completions"])
    assert message.message_id == message_id(message.ids)


def test_the_timestamp_is_of_the_youngest_completion():
    completions = written(completion(1, at_ms=1_000), completion(2, at_ms=1_790_000_000_000), completion(3, at_ms=0))
    message = make_message(topology="t", spout_task="s", completions=completions)
    assert json.loads(message.body)["timestamp"] == "2026-09-21T14:13:20.000Z"


def test_the_same_completions_give_the_same_post():
    first, second = (
        make_message(topology="t", spout_task="s", completions=written(completion(1), completion(2))) for _ in range(2)
    )
    assert first == second


@given(IDS, st.randoms())
def test_the_same_set_has_the_same_id_in_any_order(ids, random):
    mixed = random.sample(ids, k=len(ids))
    assert message_id(mixed) == message_id(ids) == message_id([*ids, ids[0]])


@given(IDS, IDS)
def test_another_set_has_another_id(ids, others):
    assert (message_id(ids) == message_id(others)) == (set(ids) == set(others))


def test_the_id_is_the_one_that_other_releases_make():
    assert message_id(["b" * 32, "a" * 32]) == "msg_fa452324607b949e940869e4e87f2a26"


@given(st.lists(st.integers(1, 7), max_size=20), st.integers(1, 9))
def test_messages_are_published_in_groups_without_a_loss(sizes: list[int], most: int) -> None:
    at = Position(ms=1, seq=0, offset=1)
    messages = [PubSubMessage(shard=0, position=at, documents=["{}"] * size) for size in sizes]
    groups = [*round_trips(messages, most)]
    assert [message for group in groups for message in group] == messages
    counts = [sum(len(message.documents) for message in group) for group in groups]
    assert all(count >= most for count in counts[:-1])
    assert all(count < most + max(sizes) for count in counts)


def test_a_test_message_has_the_form_of_the_others_and_no_completions():
    message = make_test_message(topology="t", spout_task="s-1", now_ms=1_790_000_000_007, message_id="msg_1")
    assert (message.message_id, message.ids) == ("msg_1", ())
    assert json.loads(message.body) == {
        "type": "completion.test",
        "timestamp": "2026-09-21T14:13:20.007Z",
        "data": {"topology": "t", "spout_task": "s-1", "completions": []},
    }
