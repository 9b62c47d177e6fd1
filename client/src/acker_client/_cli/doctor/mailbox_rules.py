"""Rules about completions that do not reach their reader."""

from collections.abc import Iterator

from acker_client._cli.doctor.evidence import MINUTE_MS, NEARLY_FULL, UNREAD_MS, Document, Evidence, Finding, Level
from acker_client._cli.spans import span

LONG_UNREAD_MS = 60 * MINUTE_MS


def mailbox_grows(seen: Evidence) -> Iterator[Finding]:
    """Find mailboxes that their readers do not read."""
    limit = int((seen.part("settings").get("ACKER_MAILBOX_MAX") or {}).get("value") or 0)
    for name, spout in _spouts(seen):
        callback = spout["callback"]
        if callback is not None and callback["kind"] == "webhook":
            continue
        unread_ms = seen.now_ms - (spout.get("oldest_unread_at_ms") or seen.now_ms)
        nearly_full = bool(limit) and spout["unread"] > NEARLY_FULL * limit
        if unread_ms < UNREAD_MS and not nearly_full:
            continue
        read, task = spout.get("last_read_at_ms"), spout["spout_task"]
        yield Finding(
            rule="mailbox-grows",
            level="trouble" if nearly_full or unread_ms >= LONG_UNREAD_MS else "warning",
            what=f"{spout['unread']} completions of {name}/{task} are unread; "
            + (f"they were last read {span(seen.now_ms - read)} ago" if read else "they were never read"),
            do=f"start the reader of {task}: it continues where it stopped. If its process is gone, read them with: "
            f"acker completions {name} {task}",
            since_at_ms=spout.get("oldest_unread_at_ms"),
            topology=name,
            spout_task=task,
        )


def webhook_not_delivered(seen: Evidence) -> Iterator[Finding]:
    """Find webhooks that are not on or do not arrive, and dead letters."""
    for name, spout in _spouts(seen):
        callback = spout["callback"] or {}
        if callback.get("kind") != "webhook":
            continue
        task = spout["spout_task"]
        error = f": {callback['error']}" if callback.get("error") else ""
        since = spout.get("oldest_unread_at_ms")
        late = since is not None and seen.now_ms - since >= UNREAD_MS
        if callback["state"] != "on":
            level: Level = "trouble" if spout["unread"] else "warning"
            what, do = (
                f"the webhook of {name}/{task} is {callback['state']}{error}",
                f"acker callback resume {name} {task}",
            )
        elif spout["unread"] and (late or callback.get("error")):
            level = "trouble" if late else "warning"
            what, do = f"the webhook of {name}/{task} does not arrive{error}", f"acker callback test {name} {task}"
        elif spout["dead_letters"]:
            level, since = "warning", None
            what = f"{spout['dead_letters']} completions of {name}/{task} could not be delivered"
            do = f"acker dead-letters {name} {task}"
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


def _spouts(seen: Evidence) -> Iterator[tuple[str, Document]]:
    return ((topology, spout) for topology, spouts in seen.spouts.items() for spout in spouts)
