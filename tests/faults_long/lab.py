"""What a round runs on: a store behind proxies, two replicas of the service, and clients of many kinds before them."""

import contextlib
import itertools
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import redis
from acker_protocol import routes
from acker_service.redis import keys
from redis.crc import key_slot

from bench.servers import Member, until
from examples.support.ports import free_port
from tests.faults_long import clock
from tests.faults_long.programs import SPOUTS, NotSettled, Plans, Program
from tests.faults_long.schedule import Round
from tests.support.full_disk import small_disk
from tests.support.proxy import Fate, Proxy, proxied
from tests.support.servers import PROGRAM, AckerProcess, acker_serve
from tests.support.stores import NAME, Running, running

WINDOW_MS = 900_000
"""Longer than a round: while one lasts nothing is forgotten, and no early root is dropped."""

TOPOLOGIES = {"deduped": WINDOW_MS, "plain": 0}
"""The topologies, and their dedupe windows."""

DURABILITY = {"valkey": "fsync", "valkey-sentinel": "replica:2", "valkey-cluster": "replica:1"}
"""What keeps all that was answered on each kind of store, whatever befalls one server (docs/durability.md)."""

REPLICAS = {"valkey": 0, "valkey-sentinel": 2, "valkey-cluster": 1}
"""How many replicas each primary has."""

LAG_BYTES = 100_000
"""A replica that lacks no more follows its primary."""

DISK_MIB = 256
"""The size of the disk of each server of the store."""

APPENDFSYNC = {"valkey": "always", "valkey-sentinel": "everysec", "valkey-cluster": "everysec"}
"""When each kind of store syncs its append-only file."""

SCHEDULE_S = ",".join(["1"] * 60)
"""The tries of webhooks: near each other, and too many to end in a round."""

BEGUN_BYTES = 2_000
"""A client has begun to load whose history is so long."""

WITHIN_S = 600.0
"""How long each thing may take to come back, where the run gets next to no processor."""

READY = re.compile(r"(api-\d|worker) \(pid (\d+)\) is ready")


@dataclass(slots=True, kw_only=True)
class Lab:
    """All that runs in a round."""

    round: Round
    folder: Path
    store: Running
    store_proxies: list[Proxy]
    ackers: list[AckerProcess]
    client_proxies: list[Proxy]
    loads: list[Program] = field(default_factory=list)
    readers: list[Program] = field(default_factory=list)

    @property
    def members(self) -> list[Member]:
        """The servers that have data."""
        return [member for member in self.store.members if "--sentinel" not in member.options]

    @property
    def histories(self) -> list[Path]:
        """The files of all clients, those that were killed too."""
        return sorted(self.folder.glob("*.history"))

    @property
    def urls(self) -> list[str]:
        """Where clients reach the service."""
        return [f"http://127.0.0.1:{proxy.port}" for proxy in self.client_proxies]

    def primaries(self) -> list[Member]:
        """Return the servers that are primaries by what they say themselves."""
        return [member for member in self.members if is_primary(member)]

    def primary(self, *, but: Member | None = None) -> Member:
        """Return the primary of a store that has one, as its sentinels know it; another one than ``but``."""
        if self.round.store == "valkey":
            return self.members[0]
        (_, port) = self.store.members[-1].ask("SENTINEL GET-MASTER-ADDR-BY-NAME", NAME)
        found = next(member for member in self.members if member.shown == int(port))
        if found is but or not is_primary(found):
            raise OSError("the other one is not promoted yet")
        return found

    def slots(self) -> list[int]:
        """Return the slots of all shards."""
        return [key_slot(keys.shard(topology, shard).encode()) for topology in TOPOLOGIES for shard in range(4)]

    def holder(self, slot: int, *, but: Member | None = None) -> Member:
        """Return the primary that has a slot, by what it says itself; another one than ``but``."""
        for member in self.members:
            if member is but or member.process.poll() is not None:
                continue
            me = member.ask("CLUSTER MYID")
            for first, last, (_, _, holder, *_), *_ in member.ask("CLUSTER SLOTS"):
                if first <= slot <= last and holder == me:
                    return member
        raise OSError("nobody has it now")

    def replica_of(self, primary: Member) -> Member:
        """Return a replica that follows a primary."""
        for member in self.members:
            said = "" if member is primary else member.info("INFO", "replication")
            if f"master_port:{primary.shown}" in said.replace("\r", "").split("\n"):
                return member
        raise OSError("no replica follows it")

    def is_well(self) -> bool:
        """Whether every server is there, and every replica has all; and both replicas of the service are ready."""
        for member in self.members:
            said = member.info("INFO", "replication")
            if "role:slave" in said and not re.search(r"master_link_status:up", said):
                return False
        if self.round.store == "valkey-cluster" and not all(map(is_cluster_well, self.members)):
            return False
        if self.round.store == "valkey-sentinel" and len(self.primaries()) != 1:
            return False
        replicas = REPLICAS[self.round.store]
        return all(has_replicas(primary, replicas) for primary in self.primaries())

    def begin(self) -> None:
        """Wait until all is well, and every client has begun. Raises `NotSettled`."""
        self.settle()

        def has_begun() -> bool:
            begun = {path.name: path.stat().st_size for path in self.histories}
            loading = all(begun.get(f"{program.name}-0.history", 0) > BEGUN_BYTES for program in self.loads)
            return loading and all(begun.get(f"{program.name}-0.history") for program in self.readers)

        try:
            until(has_begun, "every client has begun", within=WITHIN_S)
        except AssertionError as error:
            raise NotSettled(str(error)) from None

    def settle(self) -> None:
        """Wait until all is well again. Raises `NotSettled`."""
        for proxy in (*self.store_proxies, *self.client_proxies):
            proxy.fates = itertools.repeat(Fate.PASS)
        try:
            until(self.is_well, "the store is well", within=WITHIN_S)
            for acker in self.ackers:
                acker.wait_until_ready(within=WITHIN_S)
        except AssertionError as error:
            raise NotSettled(str(error)) from None

    def processes_of(self, acker: AckerProcess) -> dict[str, int]:
        """Return the ids of the processes of a replica by their names; its own where it is one process."""
        if "--processes" not in acker.command:
            return {"acker": acker.process.pid}
        return {name: int(pid) for name, pid in READY.findall(acker.log.read_text())}

    def is_told(self) -> bool:
        """Whether no root is pending and no completion unread, in any topology."""
        for topology in TOPOLOGIES:
            with contextlib.suppress(httpx.HTTPError, KeyError):
                shown = self.ackers[1].http.get(routes.topology(topology)).json()
                if shown["pending"] == 0 and shown["unread"] == 0:
                    continue
            return False
        return True

    def drain(self) -> None:
        """End the load, wait until all is told, and end the readers. Raises `NotSettled`."""
        for program in self.loads:
            program.end()
        end = time.monotonic() + WITHIN_S
        while not self.is_told() and time.monotonic() < end:
            time.sleep(0.25)
        for program in self.readers:
            program.end()


def is_primary(member: Member) -> bool:
    """Whether a server says that it is a primary."""
    return member.process.poll() is None and "role:master" in member.info("INFO", "replication")


def is_cluster_well(member: Member) -> bool:
    """Whether a server of a cluster finds all of its slots and servers there."""
    said = member.info("CLUSTER INFO")
    return "cluster_state:ok" in said and "cluster_slots_fail:0" in said and "cluster_slots_pfail:0" in said


def has_replicas(primary: Member, count: int) -> bool:
    """Whether so many replicas of a primary have what it has."""
    with redis.Redis(port=primary.port, socket_timeout=2) as client:
        said: dict[str, Any] = client.info("replication")
    found = [value for name, value in said.items() if re.fullmatch(r"slave\d+", name)]
    lag = [int(said["master_repl_offset"]) - int(each["offset"]) for each in found if each["state"] == "online"]
    return len(lag) >= count and max(lag, default=0) <= LAG_BYTES


@contextlib.contextmanager
def opened(
    round_: Round,
    folder: Path,
    *,
    rate: float,
    drivers: Mapping[str, list[str]],
    program: Sequence[str] = PROGRAM,
    environments: Sequence[Mapping[str, str]] = ({}, {}),
) -> Iterator[Lab]:
    """Run a lab until the block is left; logs and histories lie in ``folder``, the data of its store in ``store``.

    The two replicas have an environment each.
    """
    store_proxies: list[Proxy] = []
    with contextlib.ExitStack() as stack:
        synced = ("--appendonly", "yes", "--appendfsync", APPENDFSYNC[round_.store])
        stack.callback(clock.forget)

        def place(server: Path) -> Mapping[str, str]:
            """Give a server a disk of its own, and perhaps a clock; return its environment."""
            stack.enter_context(small_disk(server, size_mib=DISK_MIB))
            return clock.own_clock(server) if round_.own_clocks else {}

        store = stack.enter_context(
            running(round_.store, folder / "store", proxies=store_proxies, options=synced, environment=place)
        )
        ackers, proxies = list[AckerProcess](), list[Proxy]()
        hook_port = free_port()
        for name, processes, environment in zip("ab", (round_.processes, 1), environments, strict=True):
            several = ("--processes", str(processes)) if processes > 1 else ()
            options = (*_options(round_, store), *several)
            acker = acker_serve(
                folder / f"acker-{name}", *options, program=program, environment=environment, within=WITHIN_S
            )
            ackers.append(stack.enter_context(acker))
            proxies.append(stack.enter_context(proxied(int(ackers[-1].url.rpartition(":")[2]))))
        lab = Lab(
            round=round_,
            folder=folder,
            store=store,
            store_proxies=store_proxies,
            ackers=ackers,
            client_proxies=proxies,
        )
        _configure(lab, hook_port)
        plans = Plans(
            folder=folder,
            seed=round_.seed * 100_000 + round_.number,
            urls=lab.urls,
            windows_ms=TOPOLOGIES,
            rate=rate,
            redis_url=store.url,
        )
        lab.loads = [*plans.loads(), *plans.drivers(drivers, [proxy.port for proxy in proxies], round_.number)]
        lab.readers = plans.readers({topology: _spouts(lab, topology) for topology in TOPOLOGIES}, hook_port)
        stack.callback(_kill, lab)
        for each in (*lab.readers, *lab.loads):
            each.start()
        yield lab


def _kill(lab: Lab) -> None:
    """Kill what still runs; what is frozen goes on first."""
    for program in (*lab.loads, *lab.readers):
        if program.process.poll() is None:
            program.kill()
    for acker in lab.ackers:
        if acker.process.poll() is None:
            acker.kill()


def _options(round_: Round, store: Running) -> tuple[str, ...]:
    return (
        *("--redis-url", store.url),
        *("--durability", DURABILITY[round_.store]),
        *("--idempotency-window-ms", str(WINDOW_MS)),
        *("--callback-allow-cidrs", "127.0.0.0/8"),
        *("--callback-schedule-s", SCHEDULE_S),
        *("--callback-timeout-s", "5"),
    )


def _spouts(lab: Lab, topology: str) -> dict[str, dict[str, Any] | None]:
    """Return the spout tasks of a topology with their callbacks."""
    published = {"kind": "pubsub"} if lab.round.store == "valkey" and topology == "deduped" else None
    return dict(zip(SPOUTS, (None, {"kind": "webhook"}, published), strict=True))


def _configure(lab: Lab, hook_port: int) -> None:
    for topology, window_ms in TOPOLOGIES.items():
        rules = {
            "ackers": 4,
            "message_timeout_ms": WINDOW_MS,
            "dedupe_window_ms": window_ms,
            "retention_ms": WINDOW_MS,
        }
        _put(lab, routes.topology(topology), rules)
        for spout_task, callback in _spouts(lab, topology).items():
            is_webhook = callback is not None and callback["kind"] == "webhook"
            url = {"url": f"http://127.0.0.1:{hook_port}/"} if is_webhook else {}
            _put(lab, routes.spout(topology, spout_task), {"callback": callback and callback | url})


def _put(lab: Lab, path: str, document: dict[str, Any]) -> None:
    """Put a document, again while the store is not there."""

    def is_put() -> bool:
        answer = lab.ackers[1].http.put(path, json=document)
        assert answer.is_success or answer.status_code == httpx.codes.SERVICE_UNAVAILABLE, answer.text
        return answer.is_success

    until(is_put, f"PUT {path}", within=WITHIN_S)
