"""Knows on what terms completions are delivered."""

from dataclasses import dataclass

from acker_service.domain.schedule import DEFAULT, Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """``most`` completions go together; what is fewer waits ``wait_s`` for more.

    A worker has the lease of a mailbox for ``lease_ms``, which is longer than a post may take. A webhook that nothing
    succeeded for since ``pause_after_ms`` is paused.
    """

    most: int = 500
    wait_s: float = 0.02
    lease_ms: int = 35_000
    pause_after_ms: int = 86_400_000
    schedule: Schedule = DEFAULT
