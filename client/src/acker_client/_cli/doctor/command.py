"""``acker doctor``: reads what the rules judge, and prints what they find."""

import argparse
import time
from collections.abc import Sequence
from typing import Any

from acker_protocol import routes
from acker_protocol.redis_url import without_login

from acker_client._cli.doctor.evidence import SILENT_MS, Evidence, Finding
from acker_client._cli.doctor.rules import judge
from acker_client._cli.output import Result
from acker_client._cli.service import Service
from acker_client._cli.session import ServiceParser
from acker_client._cli.spans import clock_time
from acker_client.errors import AckerError, Forbidden, ServiceError, StoreUnavailable, Unauthorized, UsageError

EXIT_CODES = {"warning": 10, "trouble": 11}
SAMPLE = 100
"""So many silent roots of each topology, and roots that timed out, are read."""

RUNBOOK = "docs/runbook.md"
STORE_CHECKS = "acker.store_checks"
"""The entry points of what judges a Redis: functions of its address that give documents of findings."""


def main(arguments: Sequence[str], *, description: str | None) -> int:
    """Print what is wrong: nothing and exit 0 if all is well, 10 on a warning, 11 on trouble."""
    parser = ServiceParser("doctor", description)
    add = parser.options.add_argument
    add("--store", metavar="URL", help="Judge this Redis, before an acker uses it; needs acker-service.")
    parser.watchable()
    return parser.run(arguments, _doctor)


def gather(service: Service) -> tuple[Evidence, list[str]]:
    """Read what is judged; what could not be read is said, as a warning. Raises `AckerError` if no acker answers."""
    reader = _Reader(service)
    status = reader.read("/v1/status", missing="its store, load, keys and processes are not checked")
    listed = reader.read(routes.topologies(), missing="its topologies are not checked")
    topologies: list[dict[str, Any]] = [] if listed is None else listed["topologies"]
    spouts, history, silent, timed_out = {}, {}, {}, {}
    for topology in topologies:
        name = topology["topology"]
        if found := reader.read(routes.spouts(name), missing="mailboxes and webhooks are not checked"):
            spouts[name] = found["spouts"]
        path = f"{routes.topology(name)}/history"
        if found := reader.read(path, missing="how roots ended is not checked", window="10m"):
            history[name] = found
        if topology["counts"]["timed_out"]:
            path, missing = f"{routes.topology(name)}/failures", "why roots time out is not checked"
            if found := reader.read(path, missing=missing, outcome="timed_out", limit=SAMPLE):
                timed_out[name] = found["failures"]
        path = routes.roots(name)
        if found := reader.read(path, missing="silent roots are not checked", no_ack_for_ms=SILENT_MS, limit=SAMPLE):
            silent[name] = found["roots"]
    evidence = Evidence(
        now_ms=int(time.time() * 1000) if status is None else status["now_ms"],
        status=status,
        topologies=topologies,
        spouts=spouts,
        history=history,
        silent_roots=silent,
        timed_out=timed_out,
        refused=reader.refused,
    )
    if reader.away is not None and evidence.part("store").get("up") is not False:  # else a rule says it
        reader.notes.append(reader.away)
    return evidence, list(dict.fromkeys(reader.notes))


class _Reader:
    """Reads documents; what a key may not read, and what the acker cannot give, is noted and missing."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self.notes: list[str] = []
        self.refused: dict[str, Any] | None = None
        self.away: str | None = None

    def read(self, path: str, *, missing: str, **query: Any) -> dict[str, Any] | None:
        """Read a document; None if the acker gives a problem instead."""
        try:
            return self._service.get(path, **query)
        except Unauthorized as error:
            self.refused = error.document()
        except Forbidden:
            self.notes.append(f"the key lacks a scope: {missing}")
        except StoreUnavailable as error:
            self.away = f"{error}: {missing}"
        except ServiceError as error:
            self.notes.append(f"{error}: {missing}")
        return None


def _doctor(service: Service, found: argparse.Namespace) -> Result:
    if found.store is not None:
        return _result(_judge_store(found.store), [])
    evidence, notes = gather(service)
    return _result(judge(evidence), notes)


def _result(findings: Sequence[Finding], notes: Sequence[str]) -> Result:
    documents = [finding.document() for finding in findings]
    code = max((EXIT_CODES[finding.level] for finding in findings), default=EXIT_CODES["warning"] if notes else 0)
    lines = [line for finding in findings for line in _lines(finding)]
    return Result(document={"findings": documents}, items=documents, lines=lines, notes=notes, exit_code=code)


def _lines(finding: Finding) -> list[str]:
    since = "" if finding.since_at_ms is None else f" (since {clock_time(finding.since_at_ms)})"
    return [
        f"{finding.level}: {finding.what}{since}",
        f"    do: {finding.do}",
        f"    see: {RUNBOOK}#{finding.rule}",
    ]


def _judge_store(url: str) -> list[Finding]:
    """Judge a Redis by the distribution that speaks to one. Raises `UsageError`, `AckerError`."""
    from importlib.metadata import entry_points  # noqa: PLC0415 - takes longer than the rest of the command

    checks = list(entry_points(group=STORE_CHECKS))
    if not checks:
        raise AckerError("doctor --store needs acker-service: install it into the environment of acker-client")
    try:
        without_login(url)
        return [Finding(**document) for check in checks for document in check.load()(url)]
    except ValueError as error:
        raise UsageError(f"--store: {error}") from None
