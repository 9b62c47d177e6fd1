"""Measures whether a comparison with a secret takes longer the more of it is right: `make timing`.

Each comparison is asked about two wrong values, in turns: one wrong in its first byte, and one wrong in its last. Where
it ends at the first difference, the second one takes longer.

Two calls with the same value differ by some nanoseconds, too, since each has its own objects in memory. So many pairs
are measured, each of two new calls. Which of the two is made first, and which is asked first, changes from pair to
pair. ``t`` is Student's statistic of the differences of the pairs, without the tenth at either end. Beyond 4.5 a
difference is taken for real, as dudect has it (Reparaz, Balasch, Verbauwhede 2017). As a control the same is measured
of a comparison that ends at the first difference.
"""

import base64
import gc
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from math import sqrt

from acker_protocol import signature
from acker_protocol.anchors_signature import check_signature, write_signature
from acker_protocol.errors import InvalidSignature, Unauthorized
from acker_service.http.keys import Key, Scope, authenticate, digest_of

from docs.trust import results

PAIRS, COLD, ROUNDS, CALLS = 200, 2, 40, 40
REAL = 4.5
CONTROL = "the control: a comparison that ends at the first difference"
SECRET, NOW_S = "a key that nobody has", 1_900_000_000
ANCHORS = "00 default 00000000000000aa-00000000000000bb"

Ask = Callable[[], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """What was measured of one comparison, in nanoseconds a call."""

    what: str
    pairs: int
    first_ns: float
    last_ns: float
    t: float
    seen_ns: float
    """A difference so large would have been seen."""

    is_control: bool = False

    @property
    def depends(self) -> bool:
        """Whether its time depends on where the difference is."""
        return abs(self.t) > REAL


def wrong(right: bytes, at: int) -> bytes:
    """Return bytes that are wrong at one place."""
    changed = bytearray(right)
    changed[at] ^= 0x55
    return bytes(changed)


def naive(right: bytes, given: bytes) -> bool:
    """Compare byte by byte, and end at the first difference: the control."""
    return all(one == other for one, other in zip(right, given, strict=True))


def comparisons() -> dict[str, tuple[Callable[[int], Ask], int, int]]:
    """Return what is measured: what makes a call with a byte wrong at a place, and the two places."""
    return {
        "a key, by its hash": (_key, 0, -1),
        "a right key, the first of 100 or the last": (_placed, 0, 99),
        "the signature of a webhook": (_webhook, 0, -1),
        "the signature of anchors": (_anchors, 0, -1),
        CONTROL: (_control, 0, -1),
    }


def _control(at: int) -> Ask:
    right = digest_of(SECRET)
    given = wrong(right, at)
    return lambda: naive(right, given)


def _key(at: int) -> Ask:
    keys = (Key(name="k", digest=wrong(digest_of(SECRET), at), scope=Scope.ACK),)

    def ask() -> None:
        with suppress(Unauthorized):
            authenticate(keys, SECRET)

    return ask


def _placed(at: int) -> Ask:
    keys = [Key(name="k", digest=digest_of(f"{number}"), scope=Scope.ACK) for number in range(100)]
    keys[at] = Key(name="k", digest=digest_of(SECRET), scope=Scope.ACK)
    return lambda: authenticate(keys, SECRET)


def _webhook(at: int) -> Ask:
    secret = signature.make_secret(lambda size: b"\x07" * size)
    headers = signature.signed_headers([secret], message="msg_1", timestamp=NOW_S, body=b"{}")
    mac = base64.b64decode(headers[signature.SIGNATURE].removeprefix("v1,"))
    headers[signature.SIGNATURE] = "v1," + base64.b64encode(wrong(mac, at)).decode()

    def ask() -> None:
        with suppress(ValueError):
            signature.verify([secret], headers, b"{}", now=NOW_S)

    return ask


def _anchors(at: int) -> Ask:
    keys = (b"a secret that nobody has",)
    written = write_signature(keys, ANCHORS, now_s=NOW_S)
    head, mac = written[:-64], bytes.fromhex(written[-64:])
    headers = {"Acker-Anchors": ANCHORS, "Acker-Anchors-Signature": head + wrong(mac, at).hex()}

    def ask() -> None:
        with suppress(InvalidSignature):
            check_signature(keys, headers, now_s=NOW_S)

    return ask


def measure(what: str, make: Callable[[int], Ask], first: int, last: int, *, pairs: int = PAIRS) -> Comparison:
    """Measure a comparison with a byte wrong at the first place, and at the last."""
    made = [_pair(make, first, last, number) for number in range(pairs)]  # all are kept: none gets another's memory
    taken = [_medians(*pair) if number % 4 < 2 else _medians(*pair[::-1])[::-1] for number, pair in enumerate(made)]
    mean, error = estimate([other - one for one, other in taken])
    return Comparison(
        what=what,
        pairs=pairs,
        first_ns=round(statistics.median(one for one, _ in taken), 1),
        last_ns=round(statistics.median(other for _, other in taken), 1),
        t=round(mean / error, 2),
        seen_ns=round(REAL * error, 1),
        is_control=make is _control,
    )


def _pair(make: Callable[[int], Ask], first: int, last: int, number: int) -> tuple[Ask, Ask]:
    """Make both calls; which is made first, and so lies before the other in memory, changes with each pair."""
    if number % 2:
        later = make(last)
        return make(first), later
    return make(first), make(last)


def _medians(first: Ask, last: Ask) -> tuple[float, float]:
    """Measure both in turns; which comes first changes with each round. The first, cold rounds do not count."""
    taken: tuple[list[float], list[float]] = ([], [])
    for number in range(COLD + ROUNDS):
        for which in (0, 1) if number % 2 else (1, 0):
            ask = (first, last)[which]
            began = time.perf_counter_ns()
            for _ in range(CALLS):
                ask()
            taken[which].append((time.perf_counter_ns() - began) / CALLS)
    return statistics.median(taken[0][COLD:]), statistics.median(taken[1][COLD:])


def estimate(differences: Sequence[float]) -> tuple[float, float]:
    """Return the mean of differences without the tenth at either end, and its standard error (Yuen 1974).

    They must not all be equal.
    """
    count, cut = len(differences), len(differences) // 10
    kept = sorted(differences)[cut : count - cut]
    spread = statistics.stdev([kept[0]] * cut + kept + [kept[-1]] * cut)
    return statistics.fmean(kept), spread / (len(kept) / count * sqrt(count))


def main() -> int:
    """Measure all, keep the figures, and return the exit code: 1 if the control shows nothing."""
    run = results.Run(command="make timing")
    gc.disable()
    measured = [measure(what, *compared) for what, compared in comparisons().items()]
    for each in measured:
        depends = "depends on it" if each.depends else "does not show it"
        sys.stdout.write(
            f"{each.what:60} {each.first_ns:10.1f} ns {each.last_ns:10.1f} ns  t {each.t:8.2f}: {depends} "
            f"({each.seen_ns} ns would have been seen)\n"
        )
    results.keep("timing", run.document(), {"comparisons": [asdict(each) for each in measured]})
    return 0 if measured[-1].depends else 1


if __name__ == "__main__":
    sys.exit(main())
