"""What a fault did under a setting, and which promises that breaks."""

from dataclasses import dataclass

from tests.cluster.audit import Findings
from tests.cluster.faults import Fault
from tests.cluster.settings import Setting

COLUMNS = ("answered", "lost", "acks_lost", "early", "twice", "refused")
HEAD = f"{'fault':10}{'setting':16}" + "".join(f"{name:>11}" for name in COLUMNS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """A fault that struck under a setting, and what was found; nothing if it came to no end."""

    fault: Fault
    setting: Setting
    found: Findings | None

    def broken(self) -> list[str]:
        """Say which promises were broken: never early, under any setting; nothing lost, under one that promises it."""
        if self.found is None:
            return ["FAILED, or not reached"]
        early = ["BROKEN: roots were told early"] if self.found.early else []
        if not self.fault.is_promised_to_lose_nothing(self.setting):
            return early
        inits = ["BROKEN: acknowledged inits were lost"] if self.found.lost else []
        acks = ["BROKEN: acknowledged acks were lost"] if self.found.acks_lost else []
        return early + inits + acks

    def row(self) -> str:
        """Return it as a line below `HEAD`."""
        found = [getattr(self.found, name) if self.found else "?" for name in COLUMNS]
        row = f"{self.fault.name:10}{self.setting.name:16}" + "".join(f"{one:>11}" for one in found)
        return "  ".join([row, *self.broken()])
