"""Knows how many files this process may open: every connection is one."""

import contextlib
import resource

RESERVED = 256
"""Open files that are no connections of callers: those to Redis, the log, connections that are being refused."""


def raise_limit(connections: int) -> int:
    """Raise the limit of open files as far as this takes and the system allows; give how many connections fit.

    Beyond the limit the system would close connections unanswered, and those to Redis could not be made.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = wanted_limit(connections, soft=soft, hard=hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return connections_within(connections, limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def wanted_limit(connections: int, *, soft: int, hard: int) -> int:
    """The limit to ask for: enough for so many connections, never less than there is."""
    if soft == resource.RLIM_INFINITY:
        return soft
    wanted = max(soft, connections + RESERVED)
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def connections_within(connections: int, *, limit: int) -> int:
    """How many of so many connections fit into a limit, one at least."""
    return connections if limit == resource.RLIM_INFINITY else max(1, min(connections, limit - RESERVED))
