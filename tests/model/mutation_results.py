"""Keep how many rules `make mutations` broke and how many were noticed: it runs this once its tests have passed."""

import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from docs.trust import results
from tests.model.state_machine_mutants import IN_LUA, IN_PYTHON
from tests.model.store_mutants import MUTANTS
from tests.support import resumable
from tests.support.mutant import Mutant

TESTS = {
    "tests/model/test_mutations.py::test_a_rule_broken_in_lua_is_noticed": IN_LUA,
    "tests/model/test_mutations.py::test_a_rule_broken_in_python_is_noticed": IN_PYTHON,
    "tests/model/test_store_mutations.py::test_a_rule_of_the_store_that_is_broken_is_noticed": MUTANTS,
}


def result(passed: Collection[str], tests: Mapping[str, Sequence[Mutant]]) -> dict[str, Any]:
    """Return what is kept: ``passed`` are the names of tests that passed."""
    made, noticed, unnoticed = Counter[str](), Counter[str](), list[str]()
    for test, mutants in tests.items():
        for name, mutant in zip(names(mutants), mutants, strict=True):
            is_noticed = f"{test}[{name}]" in passed
            made[mutant.path] += 1
            noticed[mutant.path] += is_noticed
            if not is_noticed:
                unnoticed.append(mutant.rule)
    return {"made": dict(made), "noticed": dict(noticed), "unnoticed": unnoticed}


def names(mutants: Sequence[Mutant]) -> Iterator[str]:
    """Yield what pytest calls them: their rules, with a number where a rule is broken in several ways."""
    ways, before = Counter(mutant.rule for mutant in mutants), Counter[str]()
    for mutant in mutants:
        rule = mutant.rule
        yield rule if ways[rule] == 1 else f"{rule}{'_' if rule[-1].isdigit() else ''}{before[rule]}"
        before[rule] += 1


def main() -> int:
    """Keep the figures, if every rule was noticed; return the exit code."""
    run = results.Run(command="make mutations")
    passed = resumable.passed()
    found = result(passed, TESTS)
    if found["unnoticed"]:
        sys.stdout.write(
            f"nothing is kept, since {len(found['unnoticed'])} rules have not been noticed of this commit\n"
        )
        return 1
    results.keep("mutations", run.document(took_s=sum(passed.values())), found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
