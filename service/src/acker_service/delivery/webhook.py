"""Delivers the completions of one spout task to its webhook."""

import logging
import random
from typing import Any

from acker_protocol.problems import NotFound, Problem

from acker_service.delivery.courier import AGAIN_S, Courier, Ended
from acker_service.delivery.posting import Destination, Poster
from acker_service.domain.batches import settle, succeeded
from acker_service.domain.posts import make_post
from acker_service.domain.registration import Registered, State, stop
from acker_service.domain.verdicts import Fate, Verdict
from acker_service.store.deliveries import Post, Taken
from acker_service.store.topology import Remade

_log = logging.getLogger(__name__)


class WebhookCourier(Courier):
    """Posts to one webhook, one post at a time, over connections of its own."""

    def __init__(self, *args: Any, poster: Poster, **options: Any) -> None:
        super().__init__(*args, **options)
        self._poster = poster
        self._failures = 0
        self._destination: Destination | None = None

    async def run(self) -> None:
        """Deliver until told to stop, or until the callback is another."""
        assert self.spout.callback is not None
        async with self._poster.destination(self.spout.callback.url or "") as self._destination:
            await super().run()

    async def deliver(self, post: Post, taken: Taken) -> float:
        """Post what was taken. Gives for how long the receiver is left alone. Raises `Ended`."""
        verdict = await self._send(post, taken)
        if verdict.fate is Fate.OFF:
            await self._stop_callback(post, State.OFF, verdict)
        success = await self._settle(post, taken, verdict)
        self._failures = 0 if success else self._failures + 1
        if not success and await self._is_dead(taken):
            await self._stop_callback(post, State.PAUSED, verdict)
        return max(verdict.wait_s, self.terms.schedule.delays_s[0] if self._failures > 1 else 0.0)

    async def _send(self, post: Post, taken: Taken) -> Verdict:
        assert self._destination is not None
        told = [piece.told for entry in taken.entries for piece in entry.pieces]
        letter = make_post(topology=post.topology.name, spout_task=post.spout.name, completions=told)
        meters = self.store.meters.delivery
        with meters.post_seconds[post.topology.name].time():
            secrets = post.callback.secrets_at(await self.now_ms())
            verdict = await self._destination.post(letter, secrets=secrets)
        meters.posts[post.topology.name, verdict.fate.value].inc()
        if verdict.error:
            _log.info("the webhook of %s %s", self.name, verdict.error)
        return verdict

    async def _settle(self, post: Post, taken: Taken, verdict: Verdict) -> bool:
        """Settle what was posted, as soon as the store is there; gives whether the receiver took anything."""
        success = succeeded(verdict, sum(len(entry.pieces) for entry in taken.entries))
        draw, error = random.random(), verdict.error or ""  # noqa: S311 - spreads tries, guards nothing
        while True:
            try:
                now_ms = await self.now_ms()
                settlements = list(settle(taken.entries, verdict, self.terms.schedule, now_ms=now_ms, draw=draw))
                await self.store.deliveries.settle(post, taken, settlements, success=success, error=error)
            except (NotFound, Remade):
                raise Ended from None
            except Problem as problem:
                _log.warning("what the webhook of %s took is noted later: %s", self.name, problem.detail)
                if self._stopping.is_set():
                    raise Ended from None
                await self.rest(AGAIN_S)
            else:
                return success

    async def _is_dead(self, taken: Taken) -> bool:
        return taken.failing_ms is not None and await self.now_ms() - taken.failing_ms >= self.terms.pause_after_ms

    async def _stop_callback(self, post: Post, state: State, verdict: Verdict) -> None:
        """Deliver no more until somebody resumes it, unless it is another callback by now."""
        error = verdict.error or ""

        def change(present: Registered | None, _: int) -> Registered | None:
            same = present is not None and present.since_ms == post.callback.since_ms
            return stop(present, state, error) if present is not None and same else present

        await self.store.callbacks.change(post.topology.name, post.spout.name, change)
        _log.warning("the webhook of %s is %s: it %s", self.name, state, error)
        raise Ended
