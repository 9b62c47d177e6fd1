"""Judges a Redis before an acker uses it, for ``acker doctor --store``; nothing is written to it."""

import asyncio
import logging
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from acker_protocol.errors import StoreUnavailable
from acker_protocol.redis_url import without_login

from acker_service.metrics.metrics import Metrics
from acker_service.redis.client import RedisClient
from acker_service.redis.durability import RELAXED
from acker_service.redis.errors import LayoutMismatch
from acker_service.redis.requirements import REQUIRED_POLICY, ServerRequirements

MIN_VERSION = (7, 0)
NEARLY_FULL = 0.8
SLOW_MS = 5.0
"""A round trip that takes longer makes every request of an acker slow."""

LAGS_BYTES, LAGS_S = 1_048_576, 5
"""A replica in order lacks less, and says so once a second."""

PINGS = 20

Finding = dict[str, Any]

FREES_IN_FOREGROUND: Finding = {
    "rule": "redis-away",
    "level": "warning",
    "what": "Redis frees keys that expire while all requests wait: there may be sets of millions of remembered edges",
    "do": "set lazyfree-lazy-expire yes",
}
"""Found where Redis says so of its configuration."""


def judge(url: str) -> list[Finding]:
    """Return what is wrong with a Redis, as the documents of findings of ``acker doctor``.

    Raises ``ValueError`` for an address that is none.
    """
    logger = logging.getLogger("acker_service")
    level = logger.level
    logger.setLevel(logging.CRITICAL)  # what a service would log is a finding here
    try:
        return asyncio.run(_judge(url))
    finally:
        logger.setLevel(level)


async def _judge(url: str) -> list[Finding]:
    redis = RedisClient(url, Metrics().redis, durability=RELAXED)
    try:
        infos = await redis.on_every_server("INFO")
        await redis.check_layout()
        requirements = ServerRequirements(redis, RELAXED, fsync_asserted=False)
        found = list(judge_servers(infos))
        if mode := await requirements.mode_violation():
            found.append(_trouble(mode, "correct the address: docs/redis.md"))
        if await requirements.frees_in_foreground():
            found.append(FREES_IN_FOREGROUND)
        return [*found, *judge_round_trip(await _round_trip_ms(redis))]
    except LayoutMismatch as error:
        return [_trouble(str(error.detail), "empty this Redis, or name another")]
    except StoreUnavailable as error:
        what = f"{without_login(url)} cannot be used: {error.detail}"
        return [_trouble(what, "start this Redis, or correct its address or login")]
    finally:
        await redis.close()


async def _round_trip_ms(redis: RedisClient) -> float:
    """Return the median time of a PING of all servers."""
    took = []
    for _ in range(PINGS):
        began = time.perf_counter()
        await redis.on_every_server("PING")
        took.append(time.perf_counter() - began)
    return sorted(took)[PINGS // 2] * 1_000


def judge_servers(infos: Sequence[Mapping[str, Any]]) -> Iterator[Finding]:
    """Judge servers by what they say of themselves (INFO); what several have in common is found once."""
    seen = set[str]()
    for info in infos:
        for finding in _judge_server(info):
            if finding["what"] not in seen:
                seen.add(finding["what"])
                yield finding


def _judge_server(info: Mapping[str, Any]) -> Iterator[Finding]:
    version = str(info.get("redis_version", "0"))
    if tuple(int(part) for part in version.split(".")[:2] if part.isdecimal()) < MIN_VERSION:
        yield _trouble(
            f"Redis {version} has no functions as an acker needs them", "use Redis 7.0 or Valkey 7.2, or later"
        )
    policy = info.get("maxmemory_policy", REQUIRED_POLICY)
    if policy != REQUIRED_POLICY:
        yield _trouble(
            f"Redis has maxmemory-policy {policy}, which evicts pending roots",
            f"set maxmemory-policy {REQUIRED_POLICY}",
        )
    if not (info.get("aof_enabled") or info.get("loading")):  # Redis says that it keeps none while it reads it
        yield _warning("Redis keeps no append-only file: a restart forgets what is pending", "set appendonly yes")
    if info.get("aof_last_write_status", "ok") != "ok":
        yield _trouble(
            "Redis cannot write its append-only file: its disk is full, or fails",
            "make room, then let it rewrite the file (BGREWRITEAOF) before it is stopped, or it may not start again: "
            "docs/redis.md#when-its-disk-was-full",
        )
    elif info.get("errorstat_MISCONF"):
        yield _warning(
            "Redis has refused writes since it started, because its disk was full or failed",
            "unless its append-only file was rewritten since, let it do so (BGREWRITEAOF) before it is stopped, or it "
            "may not start again: docs/redis.md#when-its-disk-was-full",
        )
    limit, used = int(info.get("maxmemory", 0)), int(info.get("used_memory", 0))
    if not limit:
        yield _warning(
            "Redis has no maxmemory: the operating system ends it when memory is used up",
            "set maxmemory below the memory of its machine; docs/capacity.md says how much a load needs",
            rule="store-full",
        )
    elif used > NEARLY_FULL * limit:
        yield _trouble(
            f"Redis uses {used / limit:.0%} of its maxmemory of {limit:,} bytes",
            "raise maxmemory, or remove what else is stored there",
            rule="store-full",
        )
    if info.get("role") == "slave":
        yield _trouble("this Redis is a replica, which takes no writes", "name the primary, or the sentinels")
    yield from _judge_replicas(info)


def _judge_replicas(info: Mapping[str, Any]) -> Iterator[Finding]:
    """Judge the replicas of a primary by what it says of them: one that lags loses what it lacks when it takes over."""
    for number in range(int(info.get("connected_slaves", 0))):
        replica = info[f"slave{number}"]
        missing, silent_s = info["master_repl_offset"] - replica["offset"], replica["lag"]
        lags = []
        if replica["state"] != "online":
            lags = ["is given all data anew"]
        else:
            lags += [f"lacks the last {missing:,} bytes"] if missing > LAGS_BYTES else []
            lags += [f"has said nothing for {silent_s} s"] if silent_s > LAGS_S else []
        if lags:
            yield _warning(
                f"the replica {replica['ip']}:{replica['port']} lags: it {', and '.join(lags)}",
                "let it catch up before a failover, and before and after slots move to its primary; if it does not, "
                "look at its network, its disk and client-output-buffer-limit",
            )


def judge_round_trip(took_ms: float) -> Iterator[Finding]:
    """Judge the median of a round trip."""
    if took_ms > SLOW_MS:
        yield _warning(
            f"a round trip takes {took_ms:.1f} ms: every request of an acker waits for one",
            "run the acker near this Redis",
        )


def _trouble(what: str, do: str, *, rule: str = "redis-away") -> Finding:
    return {"rule": rule, "level": "trouble", "what": what, "do": do}


def _warning(what: str, do: str, *, rule: str = "redis-away") -> Finding:
    return {"rule": rule, "level": "warning", "what": what, "do": do}
