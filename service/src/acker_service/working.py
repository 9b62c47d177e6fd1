"""Runs what a worker does: lets time pass, looks after spout tasks, delivers."""

from acker_service.delivery.couriers import Couriers
from acker_service.delivery.idling import Idling
from acker_service.delivery.posting import Bounds, Poster
from acker_service.delivery.rounds import Rounds
from acker_service.delivery.tick import Tick
from acker_service.domain.addresses import Allowed, read_hosts, read_networks
from acker_service.domain.schedule import read_schedule
from acker_service.domain.terms import Terms
from acker_service.settings import Settings
from acker_service.store.store import Store

MARGIN_S = 2.0
"""A lease is so much longer than a post may take."""


class Working:
    """All rounds of a worker."""

    def __init__(self, store: Store, settings: Settings) -> None:
        self._rounds: list[Rounds] = [
            Tick(store, every=settings.tick_ms / 1_000),
            Idling(store, every=min(60.0, settings.spout_idle_ms / 10_000)),
            Couriers(store, poster=_poster(settings), terms=_terms(settings)),
        ]

    def start(self) -> None:
        """Begin."""
        for rounds in self._rounds:
            rounds.start()

    async def stop(self) -> None:
        """End; what is being sent is settled."""
        for rounds in self._rounds:
            await rounds.stop()


def _poster(settings: Settings) -> Poster:
    networks, hosts = read_networks(settings.callback_allow_cidrs), read_hosts(settings.callback_allow_hosts)
    bounds = Bounds(post_s=settings.callback_timeout_s, retry_after_max_s=settings.callback_retry_after_max_s)
    return Poster(allowed=Allowed(networks=networks, hosts=hosts), bounds=bounds)


def _terms(settings: Settings) -> Terms:
    return Terms(
        most=settings.callback_max_batch,
        wait_s=settings.callback_max_wait_ms / 1_000,
        lease_ms=round((settings.callback_timeout_s + MARGIN_S) * 1_000),
        schedule=read_schedule(settings.callback_schedule_s),
    )
