import pytest
from acker_service.redis.stamp import StaleStamp, Stamp, decode_stamp, unwrap

OLD, NEW = "00000000000000a0", "00000000000000a1"


def stamp(incarnation: str, version: int, *, tombstone: bool = False) -> Stamp:
    return Stamp(f"{incarnation}{version:010d}{'x' if tombstone else ''}")


def test_a_stamp_is_an_incarnation_and_a_version() -> None:
    assert stamp(NEW, 7).incarnation == NEW
    assert str(stamp(NEW, 7)) == NEW + "0000000007"
    assert not stamp(NEW, 7).is_tombstone


def test_a_later_stamp_is_greater() -> None:
    buried = stamp(OLD, 10, tombstone=True)
    assert sorted({stamp(NEW, 1), buried, stamp(OLD, 10), stamp(OLD, 2)}) == [
        *(stamp(OLD, 2), stamp(OLD, 10), buried, stamp(NEW, 1))
    ]


def test_a_tombstone_is_no_newer_than_the_stamp_that_it_was_written_over() -> None:
    assert stamp(OLD, 2, tombstone=True).is_tombstone
    assert not stamp(OLD, 2, tombstone=True).is_newer_than(stamp(OLD, 2))
    assert stamp(OLD, 3, tombstone=True).is_newer_than(stamp(OLD, 2))
    assert not stamp(OLD, 3).is_newer_than(stamp(NEW, 1))


@pytest.mark.parametrize("raw", [None, b""])
def test_a_shard_without_a_stamp_has_none(raw: bytes | None) -> None:
    assert decode_stamp(raw) is None


def test_a_reply_is_unwrapped() -> None:
    assert unwrap("key", list, [b"ok", 1, b"two"]) == [1, b"two"]


@pytest.mark.parametrize(("raw", "own"), [(b"", None), (b"00000000000000a00000000002", stamp(OLD, 2))])
def test_a_shard_that_refuses_a_call_gives_its_own_stamp(raw: bytes, own: Stamp | None) -> None:
    with pytest.raises(StaleStamp) as refused:
        unwrap("key", list, [b"stale", raw])
    assert (refused.value.key, refused.value.stamp) == ("key", own)
