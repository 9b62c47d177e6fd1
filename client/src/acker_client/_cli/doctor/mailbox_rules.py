"""Rules about completions that do not reach their reader."""

from collections.abc import Iterator

from acker_client._cli.doctor.evidence import MINUTE_MS, NEARLY_FULL, UNREAD_MS, Document, Evidence, Finding, Level
from acker_client._cli.spans import span

LONG_UNREAD_MS = 60 * MINUTE_MS


def mailbox_grows(seen: Evidence) -> Iterator[Finding]:
    """Find mailboxes that are full or will be, and those that their readers do not read."""
    limit = int((seen.part("settings").get("ACKER_MAILBOX_MAX") or {}).get("value") or 0)
    for name, spout in _spouts(seen):
        unread_ms = seen.now_ms - (spout.get("oldest_unread_at_ms") or seen.now_ms)
        nearly_full = bool(limit) and _stored(spout) > NEARLY_FULL * limit
        if not nearly_full and (_has_webhook(spout) or unread_ms < UNREAD_MS):
            continue
        yield Finding(
            rule="mailbox-grows",
            level="trouble" if nearly_full or unread_ms >= LONG_UNREAD_MS else "warning",
            what=(_near_limit(name, spout, limit) if nearly_full else _unread(name, spout)) + _last_read(seen, spout),
            do=_emptied_by(name, spout, nearly_full=nearly_full),
            since_at_ms=spout.get("oldest_unread_at_ms"),
            topology=name,
            spout_task=spout["spout_task"],
        )


def webhook_not_delivered(seen: Evidence) -> Iterator[Finding]:
    """Find webhooks that are not on or do not arrive, and dead letters."""
    for name, spout in _spouts(seen):
        if not _has_webhook(spout):
            continue
        callback, task = spout["callback"], spout["spout_task"]
        error = f": {callback['error']}" if callback.get("error") else ""
        since = spout.get("oldest_unread_at_ms")
        late = since is not None and seen.now_ms - since >= UNREAD_MS
        if callback["state"] != "on":
            level: Level = "trouble" if spout["unread"] else "warning"
            what, do = (
                f"the webhook of {name}/{task} is {callback['state']}{error}",
                f"acker webhook resume {name} {task}",
            )
        elif spout["unread"] and (late or callback.get("error")):
            level = "trouble" if late else "warning"
            what, do = f"the webhook of {name}/{task} does not arrive{error}", f"acker webhook test {name} {task}"
        elif spout["dead_letters"]:
            level, since = "warning", None
            what = f"{spout['dead_letters']} completions of {name}/{task} could not be delivered"
            do = f"acker dead-letters list {name} {task}"
        else:
            continue
        yield Finding(
            rule="webhook-not-delivered",
            level=level,
            what=what,
            do=do,
            since_at_ms=since,
            topology=name,
            spout_task=task,
        )


def _near_limit(topology: str, spout: Document, limit: int) -> str:
    dead = f" and {spout['dead_letters']} are dead letters" if spout["dead_letters"] else ""
    if _stored(spout) < limit:
        return f"{_unread(topology, spout)}{dead}, at {limit} new inits are refused with mailbox_full"
    refused = f"new inits of {topology}/{spout['spout_task']} are refused with mailbox_full"
    return f"{refused}: {spout['unread']} completions are unread{dead}, at most {limit} may be"


def _unread(topology: str, spout: Document) -> str:
    return f"{spout['unread']} completions of {topology}/{spout['spout_task']} are unread"


def _last_read(seen: Evidence, spout: Document) -> str:
    if _has_webhook(spout):
        return ""
    read = spout.get("last_read_at_ms")
    return f"; they were last read {span(seen.now_ms - read)} ago" if read else "; they were never read"


def _emptied_by(topology: str, spout: Document, *, nearly_full: bool) -> str:
    task = spout["spout_task"]
    if nearly_full and spout["dead_letters"] > spout["unread"]:
        return f"replay or discard them: acker dead-letters list {topology} {task}"
    if _has_webhook(spout):
        return f"let its webhook take them: acker webhook show {topology} {task}"
    return (
        f"start the reader of {task}: it continues where it stopped. If its process is gone, read them with: "
        f"acker completions {topology} {task}"
    )


def _stored(spout: Document) -> int:
    """Return how many completions count against the limit of a mailbox."""
    return int(spout["unread"] + spout["dead_letters"])


def _has_webhook(spout: Document) -> bool:
    return (spout["callback"] or {}).get("kind") == "webhook"


def _spouts(seen: Evidence) -> Iterator[tuple[str, Document]]:
    return ((topology, spout) for topology, spouts in seen.spouts.items() for spout in spouts)
