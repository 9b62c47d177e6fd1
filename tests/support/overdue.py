"""Lets roots be overdue without ticking."""

from acker_service.components import Components
from acker_service.redis import functions

from tests.support.caller import Caller, init
from tests.support.waiting import eventually


async def overdue(parts: Components, call: Caller, root: int) -> None:
    """Let a root of a topology be overdue."""
    assert await call.state(init(root, 9, message_timeout_ms=100)) == "pending"
    topology = await parts.registry.get(call.topology)
    number = topology.layout.shard_of(root)
    shard = functions.topologies.ShardName(topology=topology.name, incarnation=topology.incarnation, number=number)

    async def is_due() -> bool:
        return await parts.redis.execute(functions.topologies.find_due([shard])) == [shard]

    await eventually(is_due)
