"""All rules of ``acker doctor``: documents of the contract in, findings out, without I/O.

There is a rule for each entry of docs/runbook.md. The page of the service has the same rules; both are tested against
tests/support/doctor_cases.json.
"""

from collections.abc import Callable, Iterator

from acker_client._cli.doctor.evidence import Evidence, Finding
from acker_client._cli.doctor.mailbox_rules import mailbox_grows, webhook_not_delivered
from acker_client._cli.doctor.root_rules import nothing_ends, one_message_is_missing, roots_fail, roots_time_out
from acker_client._cli.doctor.service_rules import (
    early_roots_fill,
    keys,
    overloaded,
    redis_away,
    remembered_edges_fill,
    store_full,
    time_stands_still,
)

RULES: tuple[Callable[[Evidence], Iterator[Finding]], ...] = (
    nothing_ends,
    roots_time_out,
    roots_fail,
    one_message_is_missing,
    store_full,
    early_roots_fill,
    remembered_edges_fill,
    redis_away,
    mailbox_grows,
    webhook_not_delivered,
    overloaded,
    time_stands_still,
    keys,
)
"""One for each entry of the runbook, in its order."""


def judge(seen: Evidence) -> list[Finding]:
    """Find what is wrong: trouble first, else in the order of the runbook."""
    found = [finding for rule in RULES for finding in rule(seen)]
    return sorted(found, key=lambda finding: finding.level != "trouble")
