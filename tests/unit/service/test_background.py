import asyncio

import anyio
import pytest
from acker_service.background import cancel_and_wait

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
