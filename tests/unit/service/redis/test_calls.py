import pytest
from acker_service.redis import functions
from acker_service.redis.calls import (
    Call,
    ShardCall,
    decode_hint,
    fcall,
    hint_channels,
    nothing,
    read,
    shard_keys,
)
from acker_service.redis.stamp import StaleStamp, Stamp

STAMP = Stamp("00000000000000a10000000001")


def test_a_call_of_a_function_names_its_keys_and_its_arguments() -> None:
    call = fcall("do", ("first", "second"), 1, b"two", decode=len)
    assert call.command == ("FCALL", "do", 2, "first", "second", 1, b"two")
    assert (call.key, call.name, call.confirm) == ("first", "do", True)


def test_a_plain_command_reads_and_waits_for_no_replica() -> None:
    call = read("HGET", "hash", "field", decode=bool)
    assert call == Call(key="hash", name="HGET", command=("HGET", "hash", "field"), decode=bool, confirm=False)
    assert (call.key, call.name) == ("hash", "HGET")


def test_a_call_on_a_shard_names_its_stamp_and_decodes_what_follows_the_first_word() -> None:
    call = ShardCall(function="do", args=(7,), decode=tuple).at("shard", STAMP)
    assert call.command == ("FCALL", "do", 1, "shard", STAMP.text, 7)
    assert call.decode([b"ok", 1, 2]) == (1, 2)
    with pytest.raises(StaleStamp):
        call.decode([b"stale", b""])


def test_a_reply_may_hold_nothing() -> None:
    assert nothing([b"ok"]) is None  # type: ignore[func-returns-value]


def test_shards_share_one_hash_tag_with_their_channel() -> None:
    assert shard_keys("orders", 2) == ["acker:{orders/0}", "acker:{orders/1}"]
    assert hint_channels("orders", 2) == ["acker:{orders/0}:hints", "acker:{orders/1}:hints"]


@pytest.mark.parametrize(("message", "hint"), [(b"a1 7", ("a1", 7)), (b"a1", None), (b"\xff x", None), (b"", None)])
def test_a_hint_names_an_incarnation_and_a_spout_index(message: bytes, hint: tuple[str, int] | None) -> None:
    assert decode_hint(message) == hint


def test_calls_that_only_report_wait_for_no_replica() -> None:
    reports = [
        functions.roots.read_counts(),
        functions.roots.ended([]),
        functions.spouts.read_used(),
        functions.spouts.read_spouts([1]),
        functions.mailboxes.last_entries([1]),
        functions.spouts.read_ages([1]),
        functions.mailboxes.release_lease(spout_index=1, worker="w", rest_ms=0),
    ]
    assert not any(call.confirm for call in reports)
    assert functions.roots.read_root(settings=b"", bucket=0, root_id=1).confirm
    assert functions.mailboxes.read(spout_index=0, entry="", offset=0, max_completions=1, max_bytes=1).confirm
