"""Knows how tasks in the background are ended."""

import asyncio

CANCEL_INTERVAL_S = 0.1


async def cancel_and_wait(*tasks: "asyncio.Task[None]") -> None:
    """Cancel tasks and wait until they have ended.

    Once is not always enough: Python 3.11's `asyncio.wait_for`, which redis-py writes through, swallows a cancellation
    that meets its result (3.12 does not). The task would run for ever, and we wait for it.
    """
    while running := [task for task in tasks if not task.done()]:
        for task in running:
            task.cancel()
        await asyncio.wait(running, timeout=CANCEL_INTERVAL_S)
