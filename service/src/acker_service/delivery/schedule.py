"""Knows when a post that failed is tried again, and when it is given up."""

import re
from dataclasses import dataclass

JITTER = 0.2
"""Each delay is longer or shorter by up to a fifth, so that posts that failed together do not come back together."""

MOST_ENTRIES = 100
LONGEST_S = 7 * 86_400.0

_DELAY = re.compile(r"[0-9]{1,9}(\.[0-9]{1,3})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The delays in seconds before the second try, the third, and so on."""

    delays_s: tuple[float, ...] = (1, 5, 30, 120, 600, 1_800, 7_200, 18_000, 36_000, 36_000)

    @property
    def tries(self) -> int:
        """How often a completion is posted at most."""
        return len(self.delays_s) + 1

    def delay_s(self, tried: int, *, draw: float, at_least_s: float = 0.0) -> float | None:
        """Give the seconds to wait after so many tries (1 or more); None: that was the last.

        ``draw`` is a random number from 0 to 1, ``at_least_s`` what the receiver asked for.
        """
        if tried >= self.tries:
            return None
        return max(self.delays_s[tried - 1] * (1 + JITTER * (2 * draw - 1)), at_least_s)


DEFAULT = Schedule()


def read_schedule(text: str) -> Schedule:
    """Read delays in seconds, separated by commas. Raises ``ValueError``."""
    delays = tuple(_delay(entry.strip()) for entry in text.split(","))
    if len(delays) > MOST_ENTRIES:
        raise ValueError(f"a schedule has at most {MOST_ENTRIES} delays")
    return Schedule(delays_s=delays)


def _delay(entry: str) -> float:
    seconds = float(entry) if _DELAY.fullmatch(entry) else 0.0
    if not 0 < seconds <= LONGEST_S:
        raise ValueError(f"a schedule is of seconds above 0, up to {LONGEST_S:.0f}, and commas: 1,5,30")
    return seconds
