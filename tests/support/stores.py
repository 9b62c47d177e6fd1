"""Starts stores of every kind that people run: one server, a cluster with replicas, a primary with sentinels."""

import contextlib
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import pytest
from acker_service.redis.embedded import find_program

from bench.servers import (
    COMMON,
    FAST_SYNC,
    NODE_TIMEOUT_MS,
    Member,
    Start,
    cluster_url,
    find_redis7,
    follows,
    form_cluster,
    until,
)
from examples.support.ports import free_port
from tests.support import debian
from tests.support.proxy import Proxy, proxied

NAME = "acker"
KINDS = tuple(f"{name}{form}" for form in ("", "-cluster", "-sentinel") for name in ("valkey", "redis7", "redis8"))
VERSIONS = {"valkey": "Valkey 9.1.2", "redis7": "Redis 7.0.15", "redis8": "Redis 8.0.2"}
"""What the tests run, and what the documentation, the chart, the image and compose.yaml name."""


@dataclass
class Running:
    """A store that runs: its address in the settings, and its servers, the primaries first."""

    url: str
    members: list[Member]


def redis7(folder: Path) -> str:
    """Find a Redis 7.0; without one the test is skipped, and fails in CI."""
    program = find_redis7(folder)
    if program is None:
        _lack("no Redis 7.0 here: apt-get install redis-tools (Debian 12), or have redis-server 7.0 on the PATH")
    return program


def redis8() -> str:
    """Find a Redis 8.0; without one the test is skipped, and fails in CI."""
    try:
        return str(debian.redis8())
    except debian.Missing as missing:
        _lack(f"no Redis 8.0 here: {missing}")


def _lack(missing: str) -> NoReturn:
    if os.environ.get("CI"):
        pytest.fail(missing)
    pytest.skip(missing)


def _program(name: str, folder: Path) -> str:
    match name:
        case "redis7":
            return redis7(folder)
        case "redis8":
            return redis8()
        case _:
            return find_program()


@contextlib.contextmanager
def running(
    kind: str,
    folder: Path,
    *,
    proxies: list[Proxy] | None = None,
    options: tuple[str, ...] = (),
    environment: Callable[[Path], Mapping[str, str]] = lambda _: {},
) -> Iterator[Running]:
    """Run a store of a kind of `KINDS` until the block is left; ``options`` are further ones of its servers.

    ``environment`` gives that of a server by its folder. With ``proxies``, which are added to, there is one before each
    server, and the store's address leads to them.
    """
    name, _, form = kind.partition("-")
    program = _program(name, folder)
    with contextlib.ExitStack() as stack:

        def start(*own: str) -> Member:
            port = free_port()
            own = own if "--sentinel" in own else (*own, *options)
            place = folder / str(port)
            member = Member(program=program, port=port, folder=place, options=own, environment=environment(place))
            if proxies is not None:
                proxies.append(stack.enter_context(proxied(port)))
                member.shown = proxies[-1].port
                if form == "sentinel" and "--sentinel" not in own:  # sentinels know each server by one address
                    member.options += ("--replica-announce-port", str(member.shown))
            stack.callback(member.stop)
            member.start()
            return member

        form_store = {"": _alone, "cluster": _cluster, "sentinel": _sentinels}[form]
        yield form_store(start)


def version(member: Member) -> str:
    """Return the name and version of a server as it states them."""
    said = member.info("INFO", "server")
    for name, field in (("Valkey", "valkey_version"), ("Redis", "redis_version")):  # a Valkey states both
        if found := re.search(rf"^{field}:(\S+)", said, re.MULTILINE):
            return f"{name} {found[1]}"
    raise AssertionError(said)


def _alone(start: Start) -> Running:
    member = start(*COMMON)
    return Running(url=f"redis://127.0.0.1:{member.shown}", members=[member])


def _cluster(start: Start, primaries: int = 3) -> Running:
    """So many primaries, and a replica for each."""
    nodes = form_cluster(start, primaries=primaries, replicas=primaries)
    return Running(url=cluster_url(nodes), members=nodes)


def _sentinels(start: Start) -> Running:
    """One primary, two replicas, three sentinels."""
    primary = start(*COMMON, *FAST_SYNC)
    replicas = [start(*COMMON, *FAST_SYNC, "--replicaof", "127.0.0.1", str(primary.shown)) for _ in range(2)]
    until(lambda: all(follows(replica) for replica in replicas), "the replicas follow")
    sentinels = [start("--sentinel") for _ in range(3)]
    for sentinel in sentinels:
        sentinel.ask("SENTINEL MONITOR", NAME, "127.0.0.1", primary.shown, 2)
        sentinel.ask("SENTINEL SET", NAME, "down-after-milliseconds", NODE_TIMEOUT_MS)
        sentinel.ask("SENTINEL SET", NAME, "failover-timeout", 3_000)
    known = "num-other-sentinels"
    until(lambda: all(_of(s.ask("SENTINEL MASTER", NAME), known) == 2 for s in sentinels), "the sentinels have met")
    addresses = ",".join(f"127.0.0.1:{sentinel.shown}" for sentinel in sentinels)
    return Running(url=f"redis+sentinel://{addresses}/{NAME}", members=[primary, *replicas, *sentinels])


def _of(flat: Any, name: str) -> int:
    """Read one number of a reply of names and values."""
    said = flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))
    return int(said[name])


@contextlib.contextmanager
def paired(folder: Path) -> Iterator[tuple[Running, Member]]:
    """Run a Valkey, and a replica of it that has what it has, until the block is left."""
    with running("valkey", folder) as store:
        primary = store.members[0]
        replica = Member(
            program=primary.program,
            port=free_port(),
            folder=folder / "replica",
            options=(*COMMON, *FAST_SYNC, "--replicaof", "127.0.0.1", str(primary.port)),
        )
        try:
            replica.start()
            until(lambda: follows(replica), "the replica follows")
            yield store, replica
        finally:
            replica.stop()
