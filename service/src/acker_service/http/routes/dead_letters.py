"""The door for dead letters: completions that no try to deliver succeeded for."""

from typing import Any

from acker_protocol.wire.completions import encode_completion
from fastapi import APIRouter

from acker_service.http.auth import needs
from acker_service.http.parameters import After, Limit, SpoutTask, TopologyName
from acker_service.mailboxes.cursor import decode_cursor
from acker_service.mailboxes.dead_letters import DeadLetter, DeadLetterPage
from acker_service.store import Store
from acker_service.topologies.stamp import Topology


def make_router(store: Store) -> APIRouter:
    """Make the routes of the dead letters."""
    router = APIRouter(prefix="/v1/topologies/{topology}/spouts/{spout_task}/dead-letters", tags=["completions"])

    @router.get("", dependencies=[needs("spout")])
    async def list_dead_letters(
        topology: TopologyName, spout_task: SpoutTask, after: After = None, limit: Limit = 1_000
    ) -> dict[str, Any]:
        """Give dead letters after a cursor."""

        async def work(found: Topology) -> DeadLetterPage:
            spout, cursor = await store.spouts.get(found, spout_task), decode_cursor(after, found)
            return await store.dead_letters.read(found, spout, cursor, limit)

        read = await store.registry.with_current(topology, work)
        told = [_show(letter, read.cursor.incarnation) for letter in read.letters]
        return {"dead_letters": told, "cursor": read.cursor.encode()}

    @router.post("/replay", dependencies=[needs("spout")])
    async def replay_dead_letters(topology: TopologyName, spout_task: SpoutTask) -> dict[str, int]:
        """Put all dead letters back, to be delivered as if they had never been tried."""

        async def work(found: Topology) -> int:
            return await store.dead_letters.replay(found, await store.spouts.get(found, spout_task))

        return {"replayed": await store.registry.with_current(topology, work)}

    @router.post("/discard", dependencies=[needs("admin")])
    async def discard_dead_letters(topology: TopologyName, spout_task: SpoutTask) -> dict[str, int]:
        """Throw all dead letters away."""

        async def work(found: Topology) -> int:
            return await store.dead_letters.discard(found, await store.spouts.get(found, spout_task))

        return {"discarded": await store.registry.with_current(topology, work)}

    return router


def _show(letter: DeadLetter, incarnation: str) -> dict[str, Any]:
    told = encode_completion(letter.completion, incarnation=incarnation)
    return told | {"attempts": letter.attempts, "error": letter.error, "at_ms": letter.at_ms}
