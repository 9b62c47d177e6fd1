"""Trees go on while the bolts of every language are killed; and the audit notices what is completed too early."""

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from tests.conformance.chaos import Audit, Bolt, Message, Outcome, Shapes, run
from tests.conformance.programs import Driver
from tests.conformance.proxy import FaultProxy
from tests.support.servers import AckerProcess

TREES = 60


class Forgetful(Bolt):
    """A bolt that sends children on which it has not told the acker of."""

    def ask(self, do: str, **arguments: Any) -> Any:
        if do != "process":
            return super().ask(do, **arguments)
        unknown = arguments.pop("children")
        found = super().ask(do, **arguments)
        return found | {"headers": [arguments["header"]] * len(unknown)}


def outcome_of(
    bolts: dict[str, Bolt], acker: AckerProcess, proxy: FaultProxy, *, number: int, trees: int = TREES
) -> Outcome:
    outcome = Outcome(seed=7, number=number, commit="", trees=trees, languages=[*bolts])
    try:
        run(bolts, acker, proxy, outcome)
    finally:
        proxy.reset(storm=False)
        for bolt in bolts.values():
            bolt.ask("reset")
    return outcome


@pytest.mark.parametrize("number", [0, 1], ids=["with a dedupe window", "folded"])
def test_no_tree_is_completed_too_early_or_never_while_bolts_are_killed(
    number: int, languages: list[str], drivers: Callable[[str], Driver], acker: AckerProcess, proxy: FaultProxy
) -> None:
    bolts = {name: Bolt(drivers(name), proxy.url) for name in languages}
    outcome = outcome_of(bolts, acker, proxy, number=number)
    assert (outcome.too_early, outcome.never) == ([], [])
    assert outcome.outcomes["acked"] >= TREES
    assert sum(outcome.kills.values()) > 0
    assert outcome.deliveries > TREES * 4


def test_children_that_the_acker_does_not_know_are_noticed(
    drivers: Callable[[str], Driver], acker: AckerProcess, proxy: FaultProxy
) -> None:
    outcome = outcome_of({"python": Forgetful(drivers("python"), proxy.url)}, acker, proxy, number=2, trees=5)
    assert outcome.too_early


def test_a_root_is_too_early_as_long_as_a_message_of_it_was_not_worked_on() -> None:
    shapes = Shapes(seed=1)
    audit, paths = Audit(shapes), [*shapes.paths(3)]
    messages = [Message(tree=3, root="a", path=path, header="") for path in paths]
    for message in messages[:-1]:
        audit.work(message)
    audit.work(dataclasses.replace(messages[-1], root="b"))
    audit.acked(3, "a")
    assert audit.too_early == [f"tree 3, root a: {paths[-1]}"]
    audit.work(messages[-1])
    audit.acked(3, "a")
    assert len(audit.too_early) == 1


def test_a_tree_passes_every_language_and_has_the_same_shape_each_time() -> None:
    names = ["python", "typescript", "go", "java"]
    for tree in range(50):
        paths = [*Shapes(1).paths(tree)]
        assert paths == [*Shapes(1).paths(tree)]
        deepest = max(paths, key=len)
        assert {Shapes(1).language(tree, deepest[:length], names) for length in (1, 3, 5, 7)} == {*names}
