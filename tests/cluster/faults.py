"""The faults: each breaks something under load, checks that it broke, and mends it."""

from collections.abc import Callable
from dataclasses import dataclass

from tests.cluster.lab import Lab, start
from tests.cluster.replicas import NEXT_RELEASE
from tests.cluster.settings import Setting
from tests.cluster.valkeys import Node, patiently

SOME = 200
"""So many more inits are answered, or requests refused, while something is broken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A name, what it does, and the hosts that need slow links for it; ``power``: nodes lose what they have."""

    name: str
    what: str
    strike: Callable[[Lab], None]
    shaped: frozenset[str] = frozenset()
    power: bool = False

    def is_promised_to_lose_nothing(self, setting: Setting) -> bool:
        """Whether under this setting no acknowledged init may be lost."""
        return setting.flushes if self.power else setting.keeps


def _killed(lab: Lab) -> None:
    primary, replica = lab.valkeys.pairs()[0]
    primary.host.kill()
    _taken_over(lab, replica)
    primary.start()


def _frozen(lab: Lab) -> None:
    primary, replica = lab.valkeys.pairs()[0]
    primary.host.freeze()
    _taken_over(lab, replica)
    primary.host.thaw()


def _split(lab: Lab) -> None:
    primary, replica = lab.valkeys.pairs()[0]
    lab.network.cut([primary.host, lab.replicas[0].host])
    _taken_over(lab, replica)
    lab.network.heal()


def _slow(lab: Lab) -> None:
    for host in lab.network.hosts:
        if host.name in SLOW:
            host.shape(delay_ms=40, jitter_ms=30, loss=0.02)
    lab.network.lose([lab.valkeys.nodes[1].host])
    lab.load.reaches(20 * SOME)
    lab.network.heal()
    for host in lab.network.hosts:
        if host.name in SLOW:
            host.shape()


def _rolling(lab: Lab) -> None:
    for primary, replica in lab.valkeys.pairs():
        _restarted(lab, replica)
        replica.take_over()
        lab.valkeys.settle()
        _restarted(lab, primary)
    before = _versions(lab)
    for service in lab.replicas:
        service.stop()
        start([service], NEXT_RELEASE)
        lab.load.reaches(SOME)  # two libraries at once, but for the last
    assert _versions(lab) == {version + 1 for version in before}, "the newer library did not replace the older one"


def _power(lab: Lab) -> None:
    """What is lost are roots: the configuration is older than what is not flushed."""
    lab.valkeys.flush()
    for node in lab.valkeys.nodes:
        node.host.freeze()
    assert lab.disk is not None
    lab.disk.lose_power()
    for node in lab.valkeys.nodes:
        node.host.kill()
    lab.disk.come_back()
    for node in lab.valkeys.nodes:
        node.mend()
    lab.valkeys.start()


def _restarted(lab: Lab, node: Node) -> None:
    node.host.stop()
    node.start()
    lab.valkeys.settle()


def _versions(lab: Lab) -> set[int]:
    """Return the versions of the library that the primaries have; in the end they have one."""
    return {int(node.ask("FCALL", "acker_version", 0)) for node in lab.valkeys.nodes if node.is_primary()}


def _taken_over(lab: Lab, replica: Node) -> None:
    """Wait until a replica has its primary's place, and clients had answers since, if only that they are to wait.

    (Under replica:1 they do: the one that took over has no replica, and if it holds the configuration, so do all.)
    """
    patiently(replica.is_primary, f"{replica.host.name} took over")
    lab.load.is_answered(SOME)


SLOW = frozenset({"r1", "r5", "s2"})
FAULTS = [
    Fault(
        name="slow",
        what="a primary, a replica and a service are 40 to 70 ms away and lose 2 %, another primary loses 10 %",
        strike=_slow,
        shaped=SLOW,
    ),
    Fault(name="split", what="a primary is cut off, together with a replica of the service", strike=_split),
    Fault(name="killed", what="a primary is killed, and comes back after its replica took over", strike=_killed),
    Fault(name="frozen", what="a primary pauses for longer than the failover takes, then goes on", strike=_frozen),
    Fault(name="power", what="all Valkeys lose power at once, and what was not flushed", strike=_power, power=True),
    Fault(
        name="rolling",
        what="every Valkey is restarted one after the other, then every replica of the service, to the next release",
        strike=_rolling,
    ),
]
"""In the order in which they strike; after the last one there are no replicas of this release."""
