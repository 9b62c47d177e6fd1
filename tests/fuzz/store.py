"""Any arguments for the functions of the store's library: the store goes on, and a refused request has written nothing.

The second holds for the functions that apply requests: their arguments hold what callers send. Those of all others are
numbers and positions that the service makes itself.
"""

from acker_protocol.operations import Ack, Fail, Init
from acker_service.redis import keys
from acker_service.topologies.config import TopologyConfig
from redis import Redis
from redis.exceptions import ResponseError

from tests.fuzz.reader import Reader
from tests.support.driven_store import DrivenStore

CONFIG = TopologyConfig(ackers=1, buckets=8, dedupe_window_ms=60_000)
TOPOLOGIES = "acker:{topologies}"
APPLY = (b"acker_apply_v2", b"acker_apply_full_v2")
BEFORE, OF_A_REQUEST = 3, 5
"""How many arguments of a call that applies requests come before the requests, and how many each of these has."""
EVERY = 500
"""Inputs after which the store is as it was at first."""
MOST_ARGUMENTS = 24


class LuaArguments:
    """Calls functions of a Valkey at this address. `calls` are those that the service itself made at first."""

    def __init__(self, url: str) -> None:
        self._redis = Redis.from_url(url)
        store = DrivenStore(url, CONFIG, window_ms=60_000)
        self._begin(store)
        self.shard, self.stamp = keys.shard("driven", 0), store.topology.stamp.text.encode()
        store.close()
        self._kept = {key: self._redis.dump(key) for key in self._redis.scan_iter("*")}
        self._inputs = 0
        (listed,) = self._redis.execute_command("FUNCTION", "LIST")
        self.functions = sorted(each[b"name"] for each in listed[b"functions"])

    @staticmethod
    def _begin(store: DrivenStore) -> None:
        """Let there be a root of each state, and completions."""
        edges = (0xB1, 0xB2)
        for root in range(0xA1, 0xA6):
            init = Init(root_id=root, spout_task="orders", message_id=str(root), ack_val=edges[0], outstanding=1)
            ended = Fail(root_id=root, reason="no") if root % 2 else Ack(root_id=root, ack_val=edges[0], outstanding=-1)
            store.apply([init], f"init {root}")
            if root > 0xA1:
                store.apply([ended], None)
        store.apply([Ack(root_id=0xC1, ack_val=1, outstanding=-1, edge_id=1)], "early")
        store.tick()

    def __call__(self, data: bytes) -> None:
        """Call one function with these bytes as its arguments."""
        if self._inputs % EVERY == 0:
            self._restore()
        self._inputs += 1
        reader = Reader(data)
        name = reader.take(reader.number())
        function = name if name in self.functions else self.functions[sum(name) % len(self.functions)]
        key, arguments = reader.choice((self.shard, self.shard, TOPOLOGIES)), list[bytes]()
        while reader and len(arguments) < MOST_ARGUMENTS:
            arguments.append(reader.take(reader.number(2) % 1_024))
        if function in APPLY:
            missing = BEFORE - len(arguments) if len(arguments) < BEFORE else (BEFORE - len(arguments)) % OF_A_REQUEST
            arguments += [b""] * missing
        pipeline = self._redis.pipeline(transaction=False)
        pipeline.info("persistence")
        pipeline.execute_command("FCALL", function, 1, key, self.stamp, *arguments)
        pipeline.info("persistence")
        before, reply, after = pipeline.execute(raise_on_error=False)
        if isinstance(reply, Exception) and not isinstance(reply, ResponseError):
            raise reply
        if isinstance(reply, ResponseError) and function in APPLY:
            assert before["rdb_changes_since_last_save"] == after["rdb_changes_since_last_save"], (function, reply)

    def _restore(self) -> None:
        self._redis.flushall()
        for key, value in self._kept.items():
            self._redis.restore(key, 0, value)


def written(function: str, arguments: tuple[bytes, ...]) -> bytes:
    """Return the input that makes a call of the service, with the shard as its key."""
    parts = [bytes([len(function)]), function.encode(), b"\0"]
    parts += [len(each).to_bytes(2, "big") + each for each in arguments]
    return b"".join(parts)
