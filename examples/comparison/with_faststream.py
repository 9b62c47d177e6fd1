"""The pipeline with FastStream and a counter in Redis: ``python -m examples.comparison.with_faststream``."""

import asyncio
from dataclasses import dataclass

from faststream import AckPolicy, FastStream
from faststream.rabbit import RabbitBroker
from redis.asyncio import Redis

from examples.comparison.store import LINES, RABBITMQ_URL, REDIS_URL, Store

broker = RabbitBroker(RABBITMQ_URL, logger=None)
app = FastStream(broker, logger=None)
counters = Redis.from_url(REDIS_URL)

store, done = Store(), set[str]()


@dataclass
class Line:
    """A line and its message id."""

    id: str
    text: str


@dataclass
class Word:
    """A word, its line and its key."""

    line: str
    key: str
    word: str


@broker.subscriber("faststream-split", ack_policy=AckPolicy.NACK_ON_ERROR)
async def split(line: Line) -> None:
    """Set the counter, then send the words: both again if this worker dies in between."""
    words = line.text.split()
    if not words:  # nobody counts down
        finish(line.id)
    await counters.set(f"left:{line.id}", len(words))
    for position, word in enumerate(words):
        await broker.publish(Word(line=line.id, key=f"{line.id}/{position}", word=word), "faststream-count")


@broker.subscriber("faststream-count", ack_policy=AckPolicy.NACK_ON_ERROR)
async def count(word: Word) -> None:
    """Count a word; RabbitMQ delivers it again while the store is away. A second delivery counts down twice."""
    if word.word.isalpha():
        store.add(word.key, word.word)
    else:
        print(f"dropped: {word.word!r} is not a word")
    if await counters.decr(f"left:{word.line}") == 0:
        finish(word.line)


def finish(line_id: str) -> None:
    """Note that a line is done; the last one ends the program."""
    done.add(line_id)
    if len(done) == len(LINES):
        app.exit()


@app.after_startup
async def send() -> None:
    """Queue the lines."""
    for message_id, text in LINES.items():
        await broker.publish(Line(id=message_id, text=text), "faststream-split")


async def main() -> None:
    """Run until each line is done."""
    await app.run()
    await counters.aclose()
    print("done", *sorted(done))
    print(dict(sorted(store.counts().items())))


if __name__ == "__main__":
    asyncio.run(main())
