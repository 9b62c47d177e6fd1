"""Reads a stream of Redis or Valkey as a spout: a message is acked when its tree is processed. ::

def send(root, message):
    redis.xadd("charges", {"order": message.fields["order"], **root.headers(key="charge")})

with Acker("http://127.0.0.1:8700", topology="orders") as acker:
    spout = RedisStreamSpout(acker, spout="orders-reader", url=url, stream="orders", group="acker", send=send)
    spout.run(stop=ending.is_set)

A bolt gives ``acker.receive`` the fields of an entry as redis-py has read them.
"""

from acker_client.sources.redis_streams.spout import RedisStreamSpout, SkipMessage
from acker_client.sources.redis_streams.stream import Message

__all__ = ["Message", "RedisStreamSpout", "SkipMessage"]
