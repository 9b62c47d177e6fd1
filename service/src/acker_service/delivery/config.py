"""Knows on what terms completions are delivered."""

from dataclasses import dataclass

from acker_service.delivery.schedule import DEFAULT, Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryConfig:
    """``most`` completions go together; what is fewer waits ``wait_s`` for more.

    A worker has the lease of a mailbox for ``lease_ms``, which is longer than a post may take. A webhook that nothing
    succeeded for since ``pause_after_ms`` is paused.
    """

    max_batch: int = 500
    linger_s: float = 0.02
    lease_ms: int = 35_000
    pause_after_ms: int = 86_400_000
    schedule: Schedule = DEFAULT
