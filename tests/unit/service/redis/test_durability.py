import pytest
from acker_service.redis.durability import RELAXED, Durability, Mode, read_durability


def test_it_is_relaxed_fsync_or_a_number_of_replicas() -> None:
    assert read_durability("relaxed") == RELAXED == Durability(mode=Mode.RELAXED, replicas=0)
    assert read_durability("fsync") == Durability(mode=Mode.FSYNC)
    assert read_durability("replica:2") == Durability(mode=Mode.REPLICA, replicas=2)
    assert read_durability("replica:99").replicas == 99


@pytest.mark.parametrize("text", ["relaxed", "fsync", "replica:2"])
def test_it_is_written_as_it_is_read(text: str) -> None:
    assert str(read_durability(text)) == text


@pytest.mark.parametrize(
    "text", ["", "Relaxed", "replica", "replica:", "replica:0", "replica:-1", "replica:100", "replica:1 "]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="relaxed, fsync or replica:n"):
        read_durability(text)
