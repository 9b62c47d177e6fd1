import asyncio
import logging
import time

import anyio
import pytest
from acker_protocol.errors import StoreUnavailable
from acker_service.background import Wakeup, cancel_and_wait, periodically

pytestmark = pytest.mark.anyio


async def test_a_task_is_ended_though_it_swallows_a_cancellation() -> None:
    """As what waits by Python 3.11's `asyncio.wait_for` does where the cancellation meets the result."""
    swallowed = asyncio.Event()

    async def stubborn() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            swallowed.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(stubborn())
    await asyncio.wait([task], timeout=0)
    with anyio.fail_after(10):
        await cancel_and_wait(task)
    assert swallowed.is_set()
    assert task.cancelled()


async def test_a_task_that_has_ended_needs_no_waiting() -> None:
    task = asyncio.create_task(anyio.sleep_forever())
    task.cancel()
    await asyncio.wait([task])
    with anyio.fail_after(10):
        await cancel_and_wait(task)
        await cancel_and_wait()


async def test_a_loop_goes_on_after_any_error_and_logs_it(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    steps = iter((StoreUnavailable("it is away"), ValueError("a bug"), None, None))
    done = asyncio.Event()

    async def step() -> None:
        error = next(steps, None)
        if error is not None:
            raise error
        done.set()

    log = logging.getLogger("somewhere")
    task = asyncio.create_task(periodically(step, interval=0, name="the check", log=log, level=logging.WARNING))
    with anyio.fail_after(10):
        await done.wait()
        await cancel_and_wait(task)
    unavailable, bug = caplog.records[:2]
    assert (unavailable.name, unavailable.levelname) == ("somewhere", "WARNING")
    assert unavailable.getMessage() == "the check waits: it is away"
    assert (bug.levelname, bug.getMessage(), bug.exc_info is not None) == ("ERROR", "the check failed", True)


async def test_a_loop_rests_first_where_it_is_delayed_and_longer_after_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rests = list[float]()
    steps = iter((None, StoreUnavailable("it is away"), ValueError("a bug"), None, asyncio.CancelledError()))

    async def sleep(seconds: float) -> None:
        rests.append(seconds)

    async def step() -> None:
        if (error := next(steps)) is not None:
            raise error

    monkeypatch.setattr(asyncio, "sleep", sleep)
    with pytest.raises(asyncio.CancelledError):
        await periodically(
            step, interval=1, delay=3, retry_interval=2, name="the check", log=logging.getLogger("somewhere")
        )
    assert rests == [3, 1, 2, 2, 1]


async def test_a_wait_gives_when_the_first_wake_came_and_none_when_its_time_is_over() -> None:
    wakeup = Wakeup()
    assert await wakeup.wait(0.01) is None
    before = time.monotonic()
    wakeup.wake()
    between = time.monotonic()
    wakeup.wake()
    woken_s = await wakeup.wait(60)
    assert woken_s is not None
    assert before <= woken_s <= between
    assert await wakeup.wait(0.01) is None


async def test_a_wake_ends_a_wait_under_way() -> None:
    wakeup = Wakeup()
    asyncio.get_running_loop().call_later(0.01, wakeup.wake)
    with anyio.fail_after(10):
        assert await wakeup.wait(60) is not None


async def test_a_wake_that_is_cleared_ends_no_wait() -> None:
    wakeup = Wakeup()
    wakeup.wake()
    assert wakeup.is_woken
    assert wakeup.clear() is not None
    assert not wakeup.is_woken
    assert await wakeup.wait(0.01) is None
