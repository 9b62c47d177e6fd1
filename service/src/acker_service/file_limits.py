"""Raises the limit of open files: every connection counts as one."""

import contextlib
import resource

RESERVED = 256
"""Open files beside client connections: connections to Redis, the log, connections that are being refused."""


def raise_limit(connections: int) -> int:
    """Raise the limit of open files for ``connections``, as far as the system allows; give how many fit.

    Beyond the limit the system would close connections without an answer, and connections to Redis would fail.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = wanted_limit(connections, soft=soft, hard=hard)
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return connections_within(connections, limit=resource.getrlimit(resource.RLIMIT_NOFILE)[0])


def wanted_limit(connections: int, *, soft: int, hard: int) -> int:
    """Compute the limit to request: enough for ``connections``, never below the present one."""
    if soft == resource.RLIM_INFINITY:
        return soft
    wanted = max(soft, connections + RESERVED)
    return wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)


def connections_within(connections: int, *, limit: int) -> int:
    """Compute how many of ``connections`` fit into a limit, at least one."""
    return connections if limit == resource.RLIM_INFINITY else max(1, min(connections, limit - RESERVED))
