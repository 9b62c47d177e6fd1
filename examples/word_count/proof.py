"""The claims that have to hold at the end of a round."""

from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from examples.word_count import text
from examples.word_count.supervisor import Round
from examples.word_count.tally import Tally


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One claim, and whether it holds."""

    says: str
    holds: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What was counted, and all claims."""

    counts: Counter[str]
    claims: tuple[Claim, ...]

    @property
    def holds(self) -> bool:
        """Whether every claim does."""
        return all(claim.holds for claim in self.claims)


def prove(lines: dict[int, str], round_: Round) -> Proof:
    """Compare the result of a round with the text."""
    counts: Counter[str] = Counter()
    again = 0
    for path in round_.tallies:
        with closing(Tally(path)) as tally:
            counts.update(tally.counts())
            again += tally.duplicates()
    claims = (
        _equal(counts, text.plain_count(lines.values())),
        _all_acked(lines, round_.summary["acked"]),
        _replayed(lines, round_.summary["recovered"], "failed"),
        _replayed(lines, round_.summary["recovered"], "timed_out"),
        _killed(round_),
        Claim(says=f"{again} words came again in a replay, and none was counted twice", holds=again > 0),
    )
    return Proof(counts=counts, claims=claims)


def _equal(counts: Counter[str], plain: Counter[str]) -> Claim:
    if counts == plain:
        says = f"the word counts equal a plain count of the text: {plain.total()} words, {len(plain)} different ones"
        return Claim(says=says, holds=True)
    wrong = [word for word in plain | counts if plain[word] != counts[word]]
    listed = ", ".join(f"{word!r} {counts[word]} instead of {plain[word]}" for word in wrong[:5])
    says = f"the word counts differ from a plain count of the text in {len(wrong)} words: {listed}"
    return Claim(says=says, holds=False)


def _all_acked(lines: dict[int, str], acked: int) -> Claim:
    return Claim(says=f"{acked} of {len(lines)} lines were acked", holds=acked == len(lines))


def _replayed(lines: dict[int, str], recovered: list[dict[str, Any]], outcome: str) -> Claim:
    matching = [failure for failure in recovered if failure["outcome"] == outcome]
    said = outcome.replace("_", " ")
    if not matching:
        return Claim(says=f"no line {said} and was replayed", holds=False)
    first = matching[0]
    by = f" by {first['component']}: {first['reason']}" if first["component"] else ""
    example = f"line {first['line']}, {lines[first['line']].strip()!r}, attempt {first['attempt']}{by}"
    count = len({failure["line"] for failure in matching})
    return Claim(says=f"{count} lines {said}, were replayed and then acked, e.g. {example}", holds=True)


def _killed(round_: Round) -> Claim:
    """Claim that one worker was killed while it held words, and that this is what their line timed out of."""
    if len(round_.killings) != 1:
        return Claim(says=f"{len(round_.killings)} workers were killed instead of one", holds=False)
    killing = round_.killings[0]
    timed_out = {failure["line"] for failure in round_.summary["recovered"] if failure["outcome"] == "timed_out"}
    says = (
        f"{killing.worker} was killed with SIGKILL between counting {killing.held} words and acking them; "
        f"line {killing.line}, some words of which it held, timed out and was replayed"
    )
    return Claim(says=says, holds=killing.sudden and killing.line in timed_out)
