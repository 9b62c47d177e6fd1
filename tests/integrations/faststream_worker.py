"""A worker that dies once: ``python -m tests.integrations.faststream_worker BROKER ACKER TOPOLOGY QUEUE FOLDER WHEN``.

It publishes three children, in another order each time, and dies before its ack (WHEN is "before") or between its ack
and that of the broker ("between").
"""

import asyncio
import os
import sys
from pathlib import Path

from acker_client import AsyncAcker
from acker_client.integrations.faststream import AckerMiddleware
from faststream import AckPolicy, FastStream
from faststream.rabbit import RabbitBroker, RabbitQueue

CHILDREN = ("a", "b", "c")


async def main(url: str, acker_url: str, topology: str, queue: str, folder: str, when: str) -> None:
    """Run until the queue of children has been worked off by the one who started this."""
    acker, died = AsyncAcker(acker_url, topology), Path(folder) / "died"
    first_run = not died.exists()
    flush = acker.flush

    async def flush_and_die() -> None:
        await flush()
        if first_run and when == "between":
            died.touch()
            os._exit(9)

    acker.flush = flush_and_die  # type: ignore[method-assign]
    broker = RabbitBroker(url, middlewares=[AckerMiddleware(acker)], logger=None)

    @broker.subscriber(RabbitQueue(queue, durable=True), ack_policy=AckPolicy.NACK_ON_ERROR)
    async def split(line: str) -> None:
        assert line
        for child in CHILDREN if first_run else reversed(CHILDREN):
            await broker.publish(child, RabbitQueue(f"{queue}-children", durable=True))
        if first_run and when == "before":
            died.touch()
            os._exit(9)

    await FastStream(broker, logger=None).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
