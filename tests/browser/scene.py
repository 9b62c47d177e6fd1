"""Makes topologies with roots, completions and webhooks for the page to show."""

import secrets
from dataclasses import dataclass, field
from typing import Any

import httpx

Document = dict[str, Any]
BATCH = 1_000


def draw() -> str:
    """Draw an id."""
    return f"{secrets.randbits(64) or 1:016x}"


@dataclass
class Scene:
    """A topology of an acker, and the roots that were emitted into it: their edges, by root id."""

    http: httpx.Client
    topology: str
    edges: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Know its address."""
        self.path = f"/v1/topologies/{self.topology}"

    def create(self, **settings: Any) -> "Scene":
        """Create the topology, or change it."""
        self.ask("PUT", self.path, settings)
        return self

    def ask(self, method: str, path: str, document: Document | None = None) -> Document:
        """Send a request that has to succeed."""
        answer = self.http.request(method, path, json=document)
        assert answer.is_success, answer.text
        return dict(answer.json()) if answer.content else {}

    def batch(self, operations: list[Document]) -> None:
        """Send operations, in as many batches as they need."""
        for start in range(0, len(operations), BATCH):
            self.ask("POST", f"{self.path}/batch", {"ops": operations[start : start + BATCH]})

    def emit(self, number: int, *, spout_task: str = "shop", prefix: str = "order-") -> list[str]:
        """Emit roots, each with one edge; their message ids are counted from 0."""
        roots = [draw() for _ in range(number)]
        self.edges |= {root: draw() for root in roots}
        self.batch(
            [
                {
                    "op": "init",
                    "root_id": root,
                    "spout_task": spout_task,
                    "edges": [self.edges[root]],
                    "message_id": f"{prefix}{n}",
                }
                for n, root in enumerate(roots)
            ]
        )
        return roots

    def ack(self, roots: list[str], *, component: str = "charge") -> None:
        """Ack the only edge of each root."""
        self.batch([{"op": "ack", "root_id": r, "edge_id": self.edges[r], "component": component} for r in roots])

    def split(self, root: str, *, component: str = "split") -> str:
        """Ack the edge of a root with one child, which is its edge from now on; give it."""
        child = draw()
        ack = {"op": "ack", "root_id": root, "edge_id": self.edges[root], "children": [child], "component": component}
        self.batch([ack])
        self.edges[root] = child
        return child

    def fail(self, roots: list[str], *, reason: str = "card declined", component: str = "charge") -> None:
        """Fail roots."""
        self.batch([{"op": "fail", "root_id": root, "reason": reason, "component": component} for root in roots])

    def register(self, spout_task: str, url: str) -> None:
        """Give a spout task a webhook."""
        callback = {"kind": "webhook", "url": url}
        self.ask("PUT", f"{self.path}/spouts/{spout_task}", {"callback": callback})

    def completions(self, spout_task: str = "shop") -> list[Document]:
        """Read the unread completions of a spout task."""
        return list(self.ask("GET", f"{self.path}/spouts/{spout_task}/completions?limit=10000")["completions"])
