"""Shows a run: a live line, events, and the claims of the proof."""

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

EVERY_S = 1.0
WIDE = 118


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim, and whether it holds."""

    says: str
    holds: bool


class Screen:
    """On a terminal the line of progress is written over; elsewhere a new one comes once a second, if it is new."""

    def __init__(self) -> None:
        self._live = sys.stdout.isatty()
        self._shown = ""
        self._next_s = 0.0

    def show(self, **figures: object) -> None:
        """Show the figures of the moment."""
        text = "  ".join(f"{name.replace('_', ' ')} {value}" for name, value in figures.items())
        now = time.monotonic()
        if self._live:
            print(f"\r{text[:WIDE]:{WIDE}}", end="", flush=True)
        elif text != self._shown and now >= self._next_s:
            print(text, flush=True)
            self._shown = text
            self._next_s = now + EVERY_S

    def log(self, event: str) -> None:
        """Tell something that stays on the screen."""
        start = f"\r{'':{WIDE}}\r" if self._live else ""
        print(f"{start}{event}", flush=True)

    def conclude(self, claims: Sequence[Claim]) -> int:
        """Tell what is proven, and return the exit code."""
        for claim in claims:
            self.log(f"  {'proven' if claim.holds else 'WRONG '}  {claim.says}")
        holds = all(claim.holds for claim in claims)
        self.log("All of it is proven." if holds else "Not all of it is true.")
        return 0 if holds else 1
