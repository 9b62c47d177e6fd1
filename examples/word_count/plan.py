"""The options of a run, and which worker is killed at which line."""

import random
from dataclasses import dataclass

from examples.word_count import text
from examples.word_count.tuples import group_by_word


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A run as the command line asks for it."""

    lines: int
    split_workers: int
    count_workers: int
    max_pending: int
    message_timeout_ms: int
    within_s: float
    seed: int
    hard_word: str
    drop_word: str | None
    keep_going: bool

    def check(self) -> None:
        """Raise ``ValueError`` if this plan cannot show what it is to show."""
        numbers = (self.split_workers, self.count_workers, self.max_pending, self.message_timeout_ms, self.within_s)
        if self.lines < 0 or min(numbers) <= 0:
            raise ValueError("numbers of workers, lines and milliseconds have to be more than 0")
        choose_kill_point(self, self.read_lines(), ["count-1"])

    def read_lines(self) -> dict[int, str]:
        """Read the lines to count, by number. Raises ``ValueError`` if none of them would fail."""
        book = text.read_lines()
        hard = [number for number, line in enumerate(book.values(), start=1) if self.hard_word in text.words(line)]
        most = self.lines or len(book)
        if not hard or most < hard[0]:
            asked = f"take at least {hard[0]} lines" if hard else "choose another word"
            raise ValueError(f"no line of these says {self.hard_word!r}, so none would fail: {asked}")
        return dict(list(book.items())[:most])


@dataclass(frozen=True, slots=True, kw_only=True)
class KillPoint:
    """When a worker is killed: the count worker of this name, while it holds words of this line."""

    line: int
    count_worker: str


def choose_kill_point(plan: Plan, lines: dict[int, str], count_workers: list[str]) -> KillPoint:
    """Choose a line in the middle third, and the count worker of its first word.

    A line with the hard word is left out: it would fail, and what has failed does not time out any more.
    """
    third = len(lines) // 3
    middle = list(lines)[third : 2 * third]
    said = {number: text.words(lines[number]) for number in middle}
    fit = [number for number, words in said.items() if words and plan.hard_word not in words]
    if not fit:
        raise ValueError("no line in the middle can be the kill point: take more lines")
    line = random.Random(plan.seed).choice(fit)
    return KillPoint(line=line, count_worker=group_by_word(said[line][0], count_workers))
