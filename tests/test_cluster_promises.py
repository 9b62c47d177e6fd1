"""A run of tests/cluster fails when a promise was broken, a fault came to no end, or a client ended too soon."""

import contextlib
import http.server
import threading
from collections.abc import Iterator

import pytest

from tests.cluster.audit import Findings
from tests.cluster.cells import Cell
from tests.cluster.faults import FAULTS
from tests.cluster.load import Client, Load
from tests.cluster.network import Host
from tests.cluster.settings import SETTINGS

KEPT = {"replica:1", "replica:1+fsync", "pretended"}
"""Nothing may be lost under these, as long as nodes keep what they have."""

FLUSHED = {"fsync", "replica:1+fsync", "pretended"}
"""Nor under these when all lose power."""


def cell(fault: str, setting: str, **found: int) -> Cell:
    findings = Findings(**{"answered": 9, "lost": 0, "acks_lost": 0, "early": 0, "twice": 0, "refused": 0} | found)
    [struck] = [one for one in FAULTS if one.name == fault]
    [under] = [one for one in SETTINGS if one.name == setting]
    return Cell(fault=struck, setting=under, found=findings)


@pytest.mark.parametrize("fault", [fault.name for fault in FAULTS])
@pytest.mark.parametrize("setting", [setting.name for setting in SETTINGS])
def test_what_is_lost_breaks_the_promises_of_the_settings_that_made_them(fault: str, setting: str) -> None:
    promised = setting in (FLUSHED if fault == "power" else KEPT)
    assert cell(fault, setting).broken() == []
    assert bool(cell(fault, setting, lost=1).broken()) == promised
    assert bool(cell(fault, setting, acks_lost=1).broken()) == promised
    assert cell(fault, setting, early=1).broken()


def test_a_fault_that_came_to_no_end_has_failed() -> None:
    assert Cell(fault=FAULTS[0], setting=SETTINGS[0], found=None).broken()


def test_what_pretends_to_keep_is_tried_only_if_asked_for() -> None:
    tried = {setting.name for setting in SETTINGS if setting.is_tried(None)}
    assert tried == {setting.name for setting in SETTINGS} - {"pretended"}
    assert [setting.name for setting in SETTINGS if setting.is_tried(["pretended"])] == ["pretended"]


class Broken(http.server.BaseHTTPRequestHandler):
    """Answers all requests with what no acker answers."""

    def do_POST(self) -> None:
        self.send_error(500)


@contextlib.contextmanager
def broken() -> Iterator[str]:
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Broken) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


class Here:
    """The namespace of this process."""

    @staticmethod
    def inside() -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()


def test_a_client_that_ended_too_soon_fails_whoever_waits_for_the_load() -> None:
    host = object.__new__(Host)
    host.name, host.namespace = "s1", Here()
    with broken() as url:
        load = Load(clients=[Client(host=host, url=url, topology="t", shards=1)])
        load.start()
        with pytest.raises(RuntimeError, match="the client on s1 ended"):
            load.reaches(1)
        with pytest.raises(RuntimeError, match="the client on s1 ended"):
            load.end()
