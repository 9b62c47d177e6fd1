"""Rules about roots: they do not end, or end badly."""

from collections.abc import Iterator, Sequence

from acker_client._cli.doctor.evidence import RECENT_MS, SILENT_MS, UNREAD_MS, Document, Evidence, Finding

SLOWER_THAN_P99 = 10
"""So many times the 99th percentile may pass without an ack: fewer would report what is merely slow."""

TIMED_OUT_SHARE, FAILED_SHARE, MOST = 0.05, 0.2, 0.5

ACKED_TOO_OFTEN = "a tuple was acked more often than sent"
"""How the reason of such a timeout begins."""


def nothing_ends(seen: Evidence) -> Iterator[Finding]:
    """Find topologies with silent roots in which no other root ends."""
    for topology, silent, others_end in _silent(seen):
        if others_end:
            continue
        name, since = topology["topology"], min(_silent_since_ms(seen, root) for root in silent)
        last = _most_common([root["last_component"] for root in silent if root.get("last_component")])
        where = f"the last acks came from {last}" if last else "no component has acked them"
        yield Finding(
            rule="nothing-ends",
            level="trouble" if seen.now_ms - since >= UNREAD_MS else "warning",
            what=f"{_refused(seen, topology)}no root of {name} ends; {topology['pending']} are pending, {where}",
            do=f"look at the component that should ack next: it is silent; acker root list {name} --no-ack-for 60",
            since_at_ms=since,
            topology=name,
        )


def roots_time_out(seen: Evidence) -> Iterator[Finding]:
    """Find topologies of whose ended roots too many timed out."""
    for topology, hit, ended, since_at_ms in _ended_as(seen, "timed_out", allowed=TIMED_OUT_SHARE):
        name = topology["topology"]
        because, advice = _acked_too_often(seen, topology)
        yield Finding(
            rule="roots-time-out",
            level="trouble" if hit > MOST * ended else "warning",
            what=f"{hit} of {ended} roots of {name} timed out in the last 10 min{because}",
            do=f"{advice}acker failures {name} --outcome timed_out --group",
            since_at_ms=since_at_ms,
            topology=name,
        )


def roots_fail(seen: Evidence) -> Iterator[Finding]:
    """Find topologies of whose ended roots too many were failed."""
    for topology, hit, ended, since_at_ms in _ended_as(seen, "failed", allowed=FAILED_SHARE):
        name = topology["topology"]
        yield Finding(
            rule="roots-fail",
            level="warning",
            what=f"{hit} of {ended} roots of {name} failed in the last 10 min",
            do=f"acker failures {name} --outcome failed --group",
            since_at_ms=since_at_ms,
            topology=name,
        )


def one_message_is_missing(seen: Evidence) -> Iterator[Finding]:
    """Find topologies with silent roots in which others end."""
    for topology, silent, others_end in _silent(seen):
        known = [root for root in silent if root.get("acks") is not None]  # without details the last ack is unknown
        if not others_end or not known:
            continue
        name, first = topology["topology"], min(known, key=lambda root: _silent_since_ms(seen, root))
        last = first.get("last_component")
        came_from = f"its last ack came from {last}" if last else "no component has acked it"
        if _has_more_acks_than_edges(first):
            came_from += ", and a tuple of it was acked more often than sent"
        yield Finding(
            rule="one-message-is-missing",
            level="warning",
            what=f"{len(known)} of {topology['pending']} pending roots of {name} get no ack while others end; "
            f"the first is {first['root_id']}, {came_from}",
            do=f"acker root tree {name} {first['root_id']}",
            since_at_ms=_silent_since_ms(seen, first),
            topology=name,
        )


def _ended_as(seen: Evidence, outcome: str, *, allowed: float) -> Iterator[tuple[Document, int, int, int]]:
    """Yield each topology with more than this share of such ends: their number, that of all ends, and since when."""
    for topology in seen.topologies:
        points = seen.points(topology["topology"])
        ended, hit = sum(map(_ended, points)), sum(point[outcome] for point in points)
        if hit > allowed * ended:
            yield topology, hit, ended, next(point["at_ms"] for point in points if point[outcome])


def _acked_too_often(seen: Evidence, topology: Document) -> tuple[str, str]:
    """Say how many timeouts have the reason that a tuple was acked more often than sent, and what to do; or nothing."""
    name = topology["topology"]
    listed = [root for root in seen.timed_out.get(name, ()) if root["at_ms"] > seen.now_ms - RECENT_MS]
    hit = sum((root["reason"] or "").startswith(ACKED_TOO_OFTEN) for root in listed)
    if not hit:
        return "", ""
    if topology["dedupe_window_ms"]:
        advice = f"let the acks of {name} name their edge_id, or make dedupe_window_ms longer; "
    else:
        advice = f"let a tuple that comes twice count once: acker topology set {name} --dedupe-window automatic; "
    return f", {hit} of the last {len(listed)} because {ACKED_TOO_OFTEN}", advice


def _silent(seen: Evidence) -> Iterator[tuple[Document, list[Document], bool]]:
    """Yield each topology with silent roots, these roots, and whether others end meanwhile."""
    for topology in seen.topologies:
        name = topology["topology"]
        patience_ms = _patience_ms(seen, topology)
        roots = seen.silent_roots.get(name, ())
        if silent := [root for root in roots if seen.now_ms - _silent_since_ms(seen, root) >= patience_ms]:
            yield topology, silent, any(map(_ended, seen.points(name, within_ms=patience_ms)))


def _refused(seen: Evidence, topology: Document) -> str:
    """Name the first spout task with as many pending roots as it may have; empty if there is none."""
    name, most = topology["topology"], topology["max_spout_pending"]
    at_limit = [spout for spout in seen.spouts.get(name, ()) if most and spout["pending"] >= most]
    return f"new inits of {name}/{at_limit[0]['spout_task']} are refused with max_spout_pending: " if at_limit else ""


def _patience_ms(seen: Evidence, topology: Document) -> int:
    slowest = max((point["p99_ms"] or 0 for point in seen.points(topology["topology"])), default=0)
    return max(SILENT_MS, int(min(SLOWER_THAN_P99 * slowest, topology["message_timeout_ms"] // 2)))


def _silent_since_ms(seen: Evidence, root: Document) -> int:
    since: int = root.get("last_ack_at_ms") or seen.now_ms - root["age_ms"]
    return since


def _ended(point: Document) -> int:
    return int(point["acked"] + point["failed"] + point["timed_out"])


def _has_more_acks_than_edges(root: Document) -> bool:
    outstanding = root["outstanding"]
    return outstanding is not None and (outstanding < 0 or (outstanding == 0 and int(root["ack_val"], 16) != 0))


def _most_common(names: Sequence[str]) -> str | None:
    return max(sorted(set(names)), key=names.count, default=None)
