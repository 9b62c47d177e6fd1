"""What each kind of fault does to a lab. It is over when the function returns, but for what has to settle."""

import contextlib
import itertools
import os
import shutil
import signal
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

import redis

from bench.servers import Member, until
from tests.faults_long import clock
from tests.faults_long.lab import WITHIN_S, Lab, is_primary
from tests.faults_long.programs import NotSettled
from tests.faults_long.schedule import Fault
from tests.support import full_disk
from tests.support.processes import freeze, thaw
from tests.support.proxy import Fate, Proxy
from tests.support.stores import NAME

T = TypeVar("T")

KEYS_AT_ONCE = 20


class NotHere(Exception):
    """The fault cannot befall this lab; the reason."""


def befall(lab: Lab, fault: Fault) -> None:
    """Let a fault befall a lab, and wait until all is well again. Raises `NotSettled` and `NotHere`."""
    try:
        KINDS[fault.kind](lab, fault)
    except AssertionError as error:
        raise NotSettled(f"{fault.kind}: {error}") from error
    lab.settle()


def _one(things: Sequence[T], fault: Fault) -> T:
    return things[int(fault.which * len(things))]


def _wait(fault: Fault, least_s: float, most_s: float) -> None:
    """Let the fault last."""
    time.sleep(least_s + fault.how_long * (most_s - least_s))


def kill_service(lab: Lab, fault: Fault) -> None:
    """kill -9 a replica of the service."""
    acker = _one(lab.ackers, fault)
    acker.kill()
    _wait(fault, 0, 1)
    acker.start()


def stop_service(lab: Lab, fault: Fault) -> None:
    """Stop a replica of the service, and start it again."""
    acker = _one(lab.ackers, fault)
    acker.terminate(within=WITHIN_S)
    acker.start()


def freeze_service(lab: Lab, fault: Fault) -> None:
    """Freeze a process of a replica of the service."""
    _freeze(_one([*lab.processes_of(_one(lab.ackers, fault)).values()], fault), fault, 0.3, 3)


def kill_process(lab: Lab, fault: Fault) -> None:
    """kill -9 one of several processes of a replica; where it is a single one, it is started again."""
    acker = lab.ackers[0]
    processes = lab.processes_of(acker)
    if len(processes) == 1:
        kill_service(lab, fault)
        return
    name = _one([*processes], fault)
    os.kill(processes[name], signal.SIGKILL)
    until(lambda: lab.processes_of(acker)[name] != processes[name], f"{name} is started again", within=WITHIN_S)


def kill_server(lab: Lab, fault: Fault) -> None:
    """kill -9 a server of the store; a primary with replicas comes back once another one has taken over."""
    member = _one(lab.members, fault)
    was_primary = is_primary(member)
    member.stop()
    if was_primary and lab.round.store != "valkey":
        _wait_for_another(lab, member)
    else:
        _wait(fault, 0, 1)
    member.start()


def freeze_server(lab: Lab, fault: Fault) -> None:
    """Freeze a server of the store for less than another one would need to take over."""
    _freeze(_one(lab.members, fault).process.pid, fault, 0.1, 1.5)


def freeze_primary(lab: Lab, fault: Fault) -> None:
    """Freeze a primary until another one has taken over."""
    member = _one(lab.primaries(), fault)
    freeze(member.process.pid)
    try:
        _wait_for_another(lab, member)
    finally:
        thaw(member.process.pid)


def fail_over(lab: Lab, fault: Fault) -> None:
    """Ask for a failover, as an operator does before a restart."""
    member = _one(lab.primaries(), fault)
    if lab.round.store == "valkey-cluster":
        lab.replica_of(member).ask("CLUSTER FAILOVER")
    else:
        with contextlib.suppress(redis.ResponseError):  # there may be one under way
            lab.store.members[-1].ask("SENTINEL FAILOVER", NAME)
    until(lambda: not is_primary(member), "the primary is a replica now", within=WITHIN_S)


def _wait_for_another(lab: Lab, member: Member) -> None:
    """Wait until another server has taken over from one that does not answer."""
    if lab.round.store == "valkey-sentinel":
        until(lambda: lab.primary(but=member), "a replica is promoted", within=WITHIN_S)
        return
    others = [each for each in lab.members if each is not member and each.process.poll() is None]

    def is_replaced() -> bool:
        slots = others[0].ask("CLUSTER SLOTS")
        shown = {each[2][1] for each in slots}
        return member.shown not in shown and "cluster_state:ok" in others[0].info("CLUSTER INFO")

    until(is_replaced, "a replica is promoted", within=WITHIN_S)


def _meddle(fate: Fate, share: int, most_s: float) -> Callable[[list[Proxy], Fault], None]:
    """Return what lets one of so many answers come to a fate for a while."""

    def meddle(proxies: list[Proxy], fault: Fault) -> None:
        for proxy in proxies:
            proxy.after(share - 1, fate)
        _wait(fault, 0.3, most_s)
        for proxy in proxies:
            proxy.fates = itertools.repeat(Fate.PASS)

    return meddle


_DROP, _TEAR, _DELAY = _meddle(Fate.DROP, 10, 2), _meddle(Fate.CUT, 10, 2), _meddle(Fate.DELAY, 3, 2)
_CUT_OFF = _meddle(Fate.DROP, 1, 3)


def kill_client(lab: Lab, fault: Fault) -> None:
    """kill -9 a client that loads; another one goes on, with trees of its own."""
    program = _one(lab.loads, fault)
    program.kill()
    program.start()


def kill_reader(lab: Lab, fault: Fault) -> None:
    """kill -9 one who is told, and start another one."""
    program = _one(lab.readers, fault)
    program.kill()
    _wait(fault, 0, 1)
    program.start()


def freeze_client(lab: Lab, fault: Fault) -> None:
    """Freeze a client."""
    _freeze(_one([*lab.loads, *lab.readers], fault).process.pid, fault, 0.2, 3)


def fill_disk(lab: Lab, fault: Fault) -> None:
    """Leave no room on the disk of a server of the store for a while; the server may end itself then.

    One that goes on may not start again, since its file may have a hole (findings/aof-hole-after-full-disk.sh). So the
    file is rewritten, as docs/redis.md tells operators to.
    """
    member = _one(lab.members, fault)
    if not member.folder.is_mount():
        raise NotHere("a server of the store has no disk of its own: only root can mount one")
    with full_disk.filled(member.folder):
        _wait(fault, 0.5, 3)
    if member.process.poll() is not None:
        _start_after_full_disk(lab, member)
    until(lambda: full_disk.writes(member), "the server writes again", within=WITHIN_S)
    full_disk.rewrite(member, within=WITHIN_S)


def _start_after_full_disk(lab: Lab, member: Member) -> None:
    """Start a server that a full disk ended; a replica anew, for the end of its file may not be readable."""
    if any(is_primary(other) for other in lab.members if other is not member) and lab.round.store != "valkey":
        if lab.round.store == "valkey-sentinel":
            until(lambda: lab.primary(but=member), "another one is the primary", within=WITHIN_S)
        else:
            _wait_for_another(lab, member)
        shutil.rmtree(member.folder / "appendonlydir", ignore_errors=True)
    member.start()


def step_clock(lab: Lab, fault: Fault) -> None:
    """Step the clock of a server of the store, forth or back, and back to the right time."""
    if not clock.LIBRARIES:
        raise NotHere("the servers of the store have the system's clock: apt-get install libfaketime")
    member = _one(lab.members, fault)
    share = 2 * fault.how_long - 1
    clock.step(member.folder, round(share * clock.STEP_MS))
    try:
        _wait(fault, 1.5, 4)
    finally:
        clock.step(member.folder, 0)


def move_slot_at_once(lab: Lab, fault: Fault) -> None:
    """Move the slot of a shard to another primary by an atomic migration."""
    slot = _one(lab.slots(), fault)
    source, target = lab.holder(slot), _another_primary(lab, slot, fault)
    source.ask("CLUSTER MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target.ask("CLUSTER MYID"))
    until(lambda: lab.holder(slot) is target, f"slot {slot} has moved", within=WITHIN_S)


def move_slot_by_keys(lab: Lab, fault: Fault) -> None:
    """Move the slot of a shard to another primary key by key."""
    slot = _one(lab.slots(), fault)
    source, target = lab.holder(slot), _another_primary(lab, slot, fault)
    me, other = source.ask("CLUSTER MYID"), target.ask("CLUSTER MYID")
    target.ask("CLUSTER SETSLOT", slot, "IMPORTING", me)
    source.ask("CLUSTER SETSLOT", slot, "MIGRATING", other)
    while found := source.ask("CLUSTER GETKEYSINSLOT", slot, KEYS_AT_ONCE):
        source.ask("MIGRATE", "127.0.0.1", target.port, "", 0, 5_000, "KEYS", *found)
    for member in (target, source, *lab.members):
        if is_primary(member):
            member.ask("CLUSTER SETSLOT", slot, "NODE", other)
    until(lambda: lab.holder(slot) is target, f"slot {slot} has moved", within=WITHIN_S)


def _another_primary(lab: Lab, slot: int, fault: Fault) -> Member:
    holder = lab.holder(slot)
    with_slots = [lab.holder(each) for each in lab.slots()]
    others = [each for each in lab.primaries() if each is not holder]
    return _one([each for each in others if each in with_slots] or others, fault)


def _freeze(pid: int, fault: Fault, least_s: float, most_s: float) -> None:
    freeze(pid)
    try:
        _wait(fault, least_s, most_s)
    finally:
        thaw(pid)


KINDS: dict[str, Callable[[Lab, Fault], None]] = {
    "service killed": kill_service,
    "service stopped": stop_service,
    "service frozen": freeze_service,
    "process of the service killed": kill_process,
    "server of the store killed": kill_server,
    "server of the store frozen": freeze_server,
    "primary frozen until it is replaced": freeze_primary,
    "failover asked for": fail_over,
    "answers of the store dropped": lambda lab, fault: _DROP(lab.store_proxies, fault),
    "answers of the store torn": lambda lab, fault: _TEAR(lab.store_proxies, fault),
    "answers of the store delayed": lambda lab, fault: _DELAY(lab.store_proxies, fault),
    "store unreachable": lambda lab, fault: _CUT_OFF(lab.store_proxies, fault),
    "answers to clients dropped": lambda lab, fault: _DROP(lab.client_proxies, fault),
    "answers to clients delayed": lambda lab, fault: _DELAY(lab.client_proxies, fault),
    "client killed": kill_client,
    "client frozen": freeze_client,
    "reader killed": kill_reader,
    "disk full": fill_disk,
    "clock of the store stepped": step_clock,
    "slot moved at once": move_slot_at_once,
    "slot moved key by key": move_slot_by_keys,
}
