"""``acker status``, ``top``, ``history`` and ``audit``: the acker as a whole."""

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any

from acker_protocol import routes

from acker_client._cli.output import Result, more, pairs, table
from acker_client._cli.service import Service
from acker_client._cli.session import ServiceParser, add_limit, add_topology
from acker_client._cli.spans import ago, clock_time
from acker_client._cli.topologies import OUTCOMES

MIB = 1 << 20
WATCH_TOP_S = 2.0


def status(arguments: Sequence[str], *, description: str | None) -> int:
    """Show the acker: its store, load, keys and processes."""
    parser = ServiceParser("status", description)
    parser.options.add_argument("--settings", action="store_true", help="Show the settings, and where each comes from.")
    parser.watchable()
    return parser.run(arguments, _status)


def top(arguments: Sequence[str], *, description: str | None) -> int:
    """Show the topologies with what ends in them a second, again and again."""
    parser = ServiceParser("top", description)
    parser.watchable(interval=WATCH_TOP_S)
    return parser.run(arguments, _Top().read)


def history(arguments: Sequence[str], *, description: str | None) -> int:
    """Show what happened in a topology."""
    parser = ServiceParser("history", description, arguments="TOPOLOGY")
    add_topology(parser)
    parser.options.add_argument(
        "--window", choices=("10m", "3h", "1d", "all"), default="10m", help="How far back [10m]."
    )
    return parser.run(arguments, _history)


def audit(arguments: Sequence[str], *, description: str | None) -> int:
    """List what was forced or discarded."""
    parser = ServiceParser("audit", description)
    add_limit(parser)
    return parser.run(arguments, _audit)


def _status(service: Service, found: argparse.Namespace) -> Result:
    document = service.get("/v1/status")
    now, store, keys, load = document["now_ms"], document["store"], document["keys"], document["load"]
    limits = ("in_flight", "body_bytes", "waiting", "connections")
    lines = pairs(
        [
            ("acker", f"{document['version']}, role {document['role']}, started {ago(document['started_at_ms'], now)}"),
            ("store", f"{store['url']}, {store.get('server') or 'unknown'}, {'up' if store['up'] else 'AWAY'}"),
            ("memory", _memory(store)),
            ("durability", store["durability"]),
            ("time passes", bool(store["ticked"]) if store["up"] else "not known"),
            *(("warning", warning) for warning in store["warnings"]),
            ("keys", f"{keys['count']}" + (f"; the file cannot be read: {keys['error']}" if keys["error"] else "")),
            *((limit, f"{load[limit]} of {load.get(f'{limit}_limit') or 'any number'}") for limit in limits),
            ("overloaded", ago(load["overloaded_recently_at_ms"], now)),
        ]
    )
    columns = ("PROCESS", "ROLE", "VERSION", "HOST", "PID", "STARTED", "SEEN")
    rows = (
        (
            one["id"],
            one["role"],
            one["version"],
            one["host"],
            one["pid"],
            ago(one["started_at_ms"], now),
            ago(one["seen_at_ms"], now),
        )
        for one in document["processes"]
    )
    lines += ["", *table(columns, rows)]
    if found.settings:
        settings = sorted(document["settings"].items())
        lines += [
            "",
            *table(("SETTING", "VALUE", "FROM"), ((name, it["value"], it["source"]) for name, it in settings)),
        ]
    return Result(document=document, lines=lines)


def _memory(store: Mapping[str, Any]) -> str:
    if store.get("used_bytes") is None:
        return "unknown"
    limit = f" of {store['max_bytes'] // MIB} MiB" if store.get("max_bytes") else ", without a limit"
    return f"{store['used_bytes'] // MIB} MiB{limit}" + (", FULL: new roots are refused" if store["full"] else "")


class _Top:
    """The topologies, with rates since the reading before."""

    def __init__(self) -> None:
        self._counts: dict[str, Mapping[str, int]] = {}
        self._read_at = 0.0

    def read(self, service: Service, found: argparse.Namespace) -> Result:
        """Read them; the first time twice, a second apart, since a rate needs two readings."""
        if not self._read_at:
            self._keep(service.get(routes.topologies())["topologies"])
            time.sleep(min(1.0, found.watch))
        before, read_at = self._counts, self._read_at
        document = service.get(routes.topologies())
        self._keep(document["topologies"])
        elapsed_s = self._read_at - read_at
        items = [
            one | {"per_s": _rates(one["counts"], before.get(one["topology"], one["counts"]), elapsed_s)}
            for one in document["topologies"]
        ]
        items.sort(key=lambda one: (-sum(one["per_s"].values()), one["topology"]))
        columns = ("TOPOLOGY", "PENDING", "UNREAD", *(f"{outcome.upper()}/S" for outcome in OUTCOMES))
        rows = ((one["topology"], one["pending"], one["unread"], *one["per_s"].values()) for one in items)
        return Result(document={"topologies": items}, items=items, lines=table(columns, rows))

    def _keep(self, read: Sequence[Mapping[str, Any]]) -> None:
        self._counts = {one["topology"]: one["counts"] for one in read}
        self._read_at = time.monotonic()


def _rates(now: Mapping[str, int], before: Mapping[str, int], elapsed_s: float) -> dict[str, float]:
    """Return what ended a second; a topology that was made again counts from zero."""
    return {name: round(max(0, now[name] - before[name]) / elapsed_s, 1) for name in OUTCOMES}


def _history(service: Service, found: argparse.Namespace) -> Result:
    document = service.get(f"{routes.topology(found.topology)}/history", window=found.window)
    names = ("emitted", *OUTCOMES, "pending", "unread", "p50_ms", "p99_ms")
    rows = ((clock_time(point["at_ms"]), *(point[name] for name in names)) for point in document["points"])
    lines = table(("AT", *(name.upper() for name in names)), rows)
    return Result(document=document, items=document["points"], lines=lines)


def _audit(service: Service, found: argparse.Namespace) -> Result:
    document = service.collect("/v1/audit", "acts", limit=found.limit, cursor_name="after")
    names = ("act", "topology", "spout_task", "root_id", "count", "key", "request_id")
    rows = ((clock_time(act["at_ms"]), *(act[name] for name in names)) for act in document["acts"])
    lines = table(("AT", *(name.upper() for name in names)), rows)
    notes = more(document, document["acts"], found.limit)
    return Result(document=document, items=document["acts"], lines=lines, notes=notes)
