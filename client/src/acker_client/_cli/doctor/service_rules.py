"""Rules about the acker itself: its store, load, worker and keys."""

from collections.abc import Iterator

from acker_client._cli.doctor.evidence import MINUTE_MS, NEARLY_FULL, RECENT_MS, Evidence, Finding
from acker_client._cli.spans import span

FILLS = 0.75
SHORTENS = 0.5
"""The share of what early roots may take from which on reasons of their failures are cut."""

REFUSES_INITS = 0.9
"""The share of what a topology may remember from which on it takes no inits."""


def store_full(seen: Evidence) -> Iterator[Finding]:
    """Find a store that refuses new roots, or soon will."""
    store = seen.part("store")
    used, most = store.get("used_bytes") or 0, store.get("max_bytes") or 0
    share = f"Redis uses {100 * used // most} % of its memory" if most else "Redis has no memory left, or may evict"
    if store.get("full"):
        yield Finding(
            rule="store-full",
            level="trouble",
            what=f"new roots are refused with store_full: {share}",
            do="give Redis more memory, or release and discard unread completions; acker topology list shows which",
        )
    elif most and used > FILLS * most:
        yield Finding(
            rule="store-full",
            level="warning",
            what=f"{share}; from 90 % on new roots are refused",
            do="acker topology list shows what is pending and unread",
        )


def early_roots_fill(seen: Evidence) -> Iterator[Finding]:
    """Find topologies whose early roots take most of what they may."""
    most = seen.part("store").get("early_max_bytes") or 0
    for topology in seen.topologies:
        taken = topology.get("early_bytes") or 0
        if not most or taken <= SHORTENS * most:
            continue
        is_full = taken > NEARLY_FULL * most
        effect = "acks and fails of unknown roots are refused with store_full" if is_full else "reasons are cut"
        yield Finding(
            rule="early-roots-fill",
            level="trouble" if is_full else "warning",
            what=f"roots of {topology['topology']} without their init take {100 * taken // most} % "
            f"of what they may: {effect}",
            do="find the program that acks or fails roots which no spout emitted, and take its key away",
            topology=topology["topology"],
        )


def remembered_edges_fill(seen: Evidence) -> Iterator[Finding]:
    """Find topologies of which a shard remembers most of the ended edges and requests that it may."""
    most = seen.part("store").get("remembered_max_bytes") or 0
    for topology in seen.topologies:
        taken = topology.get("remembered_bytes") or 0
        if not most or taken <= FILLS * most:
            continue
        is_full = taken > REFUSES_INITS * most
        effect = "inits are refused with store_full" if is_full else "from 90 % on inits are refused"
        yield Finding(
            rule="remembered-edges-fill",
            level="trouble" if is_full else "warning",
            what=f"what a shard of {topology['topology']} remembers of ended edges and requests takes "
            f"{100 * taken // most} % of what it may: {effect}",
            do="shorten its dedupe window or ACKER_IDEMPOTENCY_WINDOW_MS, or find the program that acks ever new edges",
            topology=topology["topology"],
        )


def redis_away(seen: Evidence) -> Iterator[Finding]:
    """Find a store that cannot be reached, or that may forget."""
    store = seen.part("store")
    if store.get("up") is False:
        yield Finding(
            rule="redis-away",
            level="trouble",
            what=f"the acker cannot reach its Redis at {store['url']}; callers get 503 store_unavailable",
            do="look at Redis, its address, its password and the network between; acker doctor --store URL asks it",
        )
    for warning in store.get("warnings") or ():
        yield Finding(rule="redis-away", level="warning", what=warning, do="change the configuration of Redis")


def overloaded(seen: Evidence) -> Iterator[Finding]:
    """Find refused requests, and limits that are near."""
    load = seen.part("load")
    refused_at = load.get("overloaded_recently_at_ms")
    if refused_at is not None and seen.now_ms - refused_at < RECENT_MS:
        yield Finding(
            rule="overloaded",
            level="trouble" if seen.now_ms - refused_at < MINUTE_MS else "warning",
            what=f"the acker refused requests with 503 overloaded {span(seen.now_ms - refused_at)} ago",
            do="acker status shows which limit is near; add acker processes or raise the limit",
            since_at_ms=refused_at,
        )
    for name in ("in_flight", "body_bytes", "waiting", "connections"):
        limit = load.get(f"{name}_limit") or 0
        if limit and load[name] > NEARLY_FULL * limit:
            yield Finding(
                rule="overloaded",
                level="warning",
                what=f"{name} is {load[name]} of at most {limit}",
                do="add acker processes or raise the limit",
            )


def time_stands_still(seen: Evidence) -> Iterator[Finding]:
    """Find that no worker ends overdue roots."""
    store = seen.part("store")
    if store.get("up") and store.get("ticked") is False:
        processes = (seen.status or {}).get("processes") or ()
        workers = any(process["role"] != "api" for process in processes)
        yield Finding(
            rule="time-stands-still",
            level="trouble",
            what="nothing times out and nothing is delivered: "
            + ("a worker runs, but ends no roots" if workers else "no worker runs"),
            do="read the log of the worker" if workers else "start a worker: acker serve --role worker",
        )


def keys(seen: Evidence) -> Iterator[Finding]:
    """Find a file of keys that cannot be read, and a key that is refused."""
    keys = seen.part("keys")
    if keys.get("error"):
        yield Finding(
            rule="keys",
            level="trouble",
            what=f"the file of keys cannot be read: {keys['error']}; the {keys['count']} keys read before are in force",
            do="correct the file that ACKER_KEYS_FILE names; it is read again by itself",
            since_at_ms=keys.get("loaded_at_ms"),
        )
    if seen.refused is not None:
        yield Finding(
            rule="keys",
            level="trouble",
            what=f"the acker refuses the key: {seen.refused['detail']}",
            do="give a key of scope admin by --api-key or ACKER_API_KEY",
        )
