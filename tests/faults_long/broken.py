"""An acker with a rule broken on purpose: ``python -m tests.faults_long.broken MUTANT serve …``, the mutant as JSON.

A long run against it has to find what the rule holds.
"""

import json
import sys

from acker_service.redis import library

from tests.support.mutant import Mutant, _break_module


def break_rule(mutant: Mutant) -> None:
    """Break a rule in this process."""
    if mutant.path.endswith(".lua"):
        text = mutant.library()
        library.source = lambda: text
    else:
        _break_module(mutant)


if __name__ == "__main__":
    break_rule(Mutant(**json.loads(sys.argv.pop(1))))
    from acker_service.__main__ import main

    main()
