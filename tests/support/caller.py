"""Speaks to one topology over HTTP, in few words."""

from dataclasses import dataclass
from typing import Any

import httpx
from acker_protocol import routes
from acker_protocol.ids import format_id

Document = dict[str, Any]


def init(root: int, *edges: int, spout_task: str = "orders", **fields: Any) -> Document:
    """An init with named edges."""
    return {"op": "init", "root_id": format_id(root), "spout_task": spout_task, "edges": _ids(edges)} | fields


def compact_init(root: int, ack_val: int, *, spout_task: str = "orders", **fields: Any) -> Document:
    """An init by a program that has done the XOR."""
    return {"op": "init", "root_id": format_id(root), "spout_task": spout_task, "ack_val": format_id(ack_val)} | fields


def ack(root: int, edge: int, *children: int, **fields: Any) -> Document:
    """An ack that names its edge and the children."""
    document = {"op": "ack", "root_id": format_id(root), "edge_id": format_id(edge)} | fields
    return document | {"children": _ids(children)} if children else document


def compact_ack(root: int, ack_val: int, **fields: Any) -> Document:
    """An ack by a program that has done the XOR."""
    return {"op": "ack", "root_id": format_id(root), "ack_val": format_id(ack_val)} | fields


def fail(root: int, **fields: Any) -> Document:
    """A failure."""
    return {"op": "fail", "root_id": format_id(root)} | fields


def reset_timeout(root: int) -> Document:
    """A reset of the timeout."""
    return {"op": "reset-timeout", "root_id": format_id(root)}


@dataclass(frozen=True)
class Caller:
    """Calls one topology of one acker."""

    http: httpx.AsyncClient
    topology: str = "default"

    async def post(self, op: Document, *, key: str | None = None) -> httpx.Response:
        """Send one operation in a call of its own."""
        document = {name: value for name, value in op.items() if name != "op"}
        return await self.http.post(routes.operation(self.topology, op["op"]), json=document, headers=_keyed(key))

    async def batch(self, *ops: Document, key: str | None = None, results: str = "all") -> httpx.Response:
        """Send operations together."""
        address = routes.operation(self.topology, "batch")
        return await self.http.post(address, json={"ops": ops}, headers=_keyed(key), params={"results": results})

    async def state(self, op: Document, *, key: str | None = None) -> str:
        """Send one operation; return the state that answers it, also where that is a refusal."""
        answer = (await self.post(op, key=key)).json()
        return str(answer.get("state") or answer["code"])

    async def states(self, *ops: Document, key: str | None = None) -> list[str]:
        """Send operations together; return the states that answer them."""
        answer = await self.batch(*ops, key=key)
        assert answer.status_code == 200, answer.text
        return list(answer.json()["results"])

    async def put(self, **configuration: Any) -> httpx.Response:
        """Make or change the topology."""
        answer = await self.http.put(routes.topology(self.topology), json=configuration)
        assert answer.is_success, answer.text
        return answer

    async def show(self) -> Document:
        """Return the topology."""
        return dict((await self.http.get(routes.topology(self.topology))).json())

    async def root(self, root: int, **query: Any) -> Document:
        """Return a root, or the problem."""
        return dict((await self.http.get(routes.root(self.topology, format_id(root)), params=query)).json())

    async def roots(self, **query: Any) -> Document:
        """List pending roots, or return the problem."""
        return dict((await self.http.get(routes.roots(self.topology), params=query)).json())

    async def force_fail(self, root: int, **document: Any) -> Document:
        """Fail a root by hand, or return the problem."""
        address = routes.force_fail(self.topology, format_id(root))
        return dict((await self.http.post(address, json=document)).json())

    async def put_spout(self, spout_task: str = "orders", **document: Any) -> httpx.Response:
        """Make or change a spout task."""
        answer = await self.http.put(routes.spout(self.topology, spout_task), json=document)
        assert answer.is_success, answer.text
        return answer

    async def spout(self, spout_task: str = "orders") -> Document:
        """Return a spout task, or the problem."""
        return dict((await self.http.get(routes.spout(self.topology, spout_task))).json())

    async def completions(self, spout_task: str = "orders", **query: Any) -> Document:
        """Read completions."""
        answer = await self.http.get(routes.completions(self.topology, spout_task), params=query)
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    async def outcomes(self, spout_task: str = "orders", **query: Any) -> list[tuple[int, str]]:
        """Read completions, and return the roots and their outcomes."""
        read = await self.completions(spout_task, **query)
        return [(int(done["root_id"], 16), done["outcome"]) for done in read["completions"]]

    async def release(self, cursor: str, spout_task: str = "orders") -> int:
        """Release completions up to a cursor, and return how many."""
        answer = await self.http.post(routes.release(self.topology, spout_task), json={"cursor": cursor})
        assert answer.status_code == 200, answer.text
        return int(answer.json()["released"])


def _keyed(key: str | None) -> dict[str, str]:
    return {} if key is None else {routes.IDEMPOTENCY_KEY: key}


def _ids(ids: tuple[int, ...]) -> list[str]:
    return [format_id(value) for value in ids]
