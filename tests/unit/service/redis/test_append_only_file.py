"""When the file of the embedded store is rewritten: each row is a look at the server, and the step that follows."""

import pytest
from acker_service.redis.append_only_file import (
    CANNOT_WRITE,
    FIRST_RETRY_S,
    LAST_RETRY_S,
    READ,
    AppendOnlyFile,
    Damage,
    Step,
)

GOOD = {
    "aof_last_write_status": "ok",
    "aof_rewrite_in_progress": 0,
    "aof_rewrite_scheduled": 0,
    "aof_last_bgrewrite_status": "ok",
}
FULL = GOOD | {"aof_last_write_status": "err"}
REFUSED = GOOD | {"errorstat_MISCONF": {"count": 3}}
REWRITES = GOOD | {"aof_rewrite_in_progress": 1}
SCHEDULED = GOOD | {"aof_rewrite_scheduled": 1}
FAILED = GOOD | {"aof_last_bgrewrite_status": "err"}


@pytest.mark.parametrize(
    ("looks", "steps"),
    [
        ([GOOD, GOOD], [Step.NOTHING, Step.NOTHING]),
        ([FULL, FULL, GOOD], [Step.TELL_UNWRITTEN, Step.TELL_UNWRITTEN, Step.REWRITE]),
        ([FULL, GOOD, REWRITES, GOOD], [Step.TELL_UNWRITTEN, Step.REWRITE, Step.NOTHING, Step.TELL_REWRITTEN]),
        ([FULL, GOOD, GOOD, GOOD], [Step.TELL_UNWRITTEN, Step.REWRITE, Step.TELL_REWRITTEN, Step.NOTHING]),
        ([REFUSED, REFUSED, REFUSED], [Step.TELL_UNWRITTEN, Step.REWRITE, Step.TELL_REWRITTEN]),
        ([FULL, REWRITES, SCHEDULED, GOOD], [Step.TELL_UNWRITTEN, Step.NOTHING, Step.NOTHING, Step.REWRITE]),
        ([FULL, GOOD, FULL, GOOD], [Step.TELL_UNWRITTEN, Step.REWRITE, Step.TELL_UNWRITTEN, Step.REWRITE]),
        ([FULL, GOOD, FAILED, FAILED], [Step.TELL_UNWRITTEN, Step.REWRITE, Step.TELL_FAILED, Step.NOTHING]),
    ],
)
def test_each_look_has_one_step(looks: list[dict[str, object]], steps: list[Step]) -> None:
    damage = Damage()
    assert [damage.next(look, 100.0) for look in looks] == steps


def test_a_rewrite_that_fails_is_tried_again_after_twice_as_long_each_time() -> None:
    damage, now_s, after_s = Damage(), 100.0, FIRST_RETRY_S
    assert damage.next(FULL, now_s) is Step.TELL_UNWRITTEN
    assert damage.next(GOOD, now_s) is Step.REWRITE
    for _ in range(9):
        assert damage.next(FAILED, now_s) is Step.TELL_FAILED
        assert damage.next(FAILED, now_s + after_s - 0.1) is Step.NOTHING
        now_s, after_s = now_s + after_s, min(2 * after_s, LAST_RETRY_S)
        assert damage.next(FAILED, now_s) is Step.REWRITE
    assert after_s == LAST_RETRY_S


def test_what_a_server_has_read_at_its_start_has_no_hole() -> None:
    damage = Damage()
    damage.next(FULL, 0.0)
    assert damage.is_there
    damage.forget()
    assert not damage.is_there
    assert damage.next(GOOD, 1.0) is Step.NOTHING


@pytest.mark.anyio
async def test_a_full_disk_is_logged_again_after_the_server_was_started_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = AppendOnlyFile("unix:///nobody-listens")

    async def command(*_: str) -> dict[str, object]:
        return FULL

    monkeypatch.setattr(file._node, "command", command)
    for _ in range(2):
        await file.rewrite_if_damaged()
        await file.rewrite_if_damaged()
        file.was_read()
    told = [record.getMessage() for record in caplog.records if record.levelname != "DEBUG"]
    assert told == [CANNOT_WRITE, READ, CANNOT_WRITE, READ]
    await file.close()
