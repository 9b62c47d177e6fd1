"""A spout that prints what it sends: run as a module, with ACKER TOPOLOGY REDIS STREAM IDLE."""

import sys

from acker_client import Acker, Root
from acker_client.sources.redis_streams import Message, RedisStreamSpout


def send(root: Root, message: Message) -> None:
    """Print a message; its child is never acked."""
    root.anchor("work")
    sys.stdout.write(f"{message.fields['body'].decode()}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    acker_url, topology, redis_url, stream, idle = sys.argv[1:]
    RedisStreamSpout(
        Acker(acker_url, topology), spout="orders", url=redis_url, stream=stream, group="acker", send=send,
        idle_timeout=float(idle),
    ).run(stop=lambda: False)  # fmt: skip
