"""Lets roots be overdue without ticking."""

from acker_service.components import Components
from acker_service.redis import config_functions

from tests.support.caller import Caller, init
from tests.support.waiting import eventually


async def overdue(parts: Components, call: Caller, root: int) -> None:
    """Let a root of a topology be overdue."""
    assert await call.word(init(root, 9, message_timeout_ms=100)) == "pending"
    topology = await parts.registry.get(call.topology)
    number = topology.layout.shard_of(root)
    shard = config_functions.ShardName(topology=topology.name, incarnation=topology.incarnation, number=number)

    async def is_due() -> bool:
        return await parts.redis.execute(config_functions.find_due([shard])) == [shard]

    await eventually(is_due)
