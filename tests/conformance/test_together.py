"""A tree passes through clients of every language, and each gives the same child the same edge."""

from collections.abc import Callable

import pytest

from tests.conformance.player import TOPOLOGY
from tests.conformance.programs import Driver
from tests.conformance.proxy import FaultProxy
from tests.support.servers import AckerProcess

Start = Callable[[str], Driver]


@pytest.fixture
def opened(languages: list[str], drivers: Start, proxy: FaultProxy, acker: AckerProcess) -> dict[str, Driver]:
    """A driver of each language with a client of one topology, in a storm."""
    acker.http.put("/v1/topologies/together", json=TOPOLOGY).raise_for_status()
    proxy.reset(storm=True)
    found = {name: drivers(name) for name in languages}
    for driver in found.values():
        driver.call("reset")
        driver.call("open", url=proxy.url, topology="together")
    return found


def test_a_tree_passes_through_every_language_whichever_has_the_spout(opened: dict[str, Driver]) -> None:
    for spout, driver in opened.items():
        emitted = driver.call("emit", spout=f"of-{spout}", shared=True, message_id=spout, children=["first"])
        [header] = emitted["headers"]
        for name, bolt in opened.items():
            [header] = bolt.call("process", header=header, component=name, children=["next"], ambient=True)["headers"]
        driver.call("process", header=header, component="end")
        read = driver.call("completions", spout=f"of-{spout}", shared=True, count=1)
        assert [(each["message_id"], each["outcome"]) for each in read["completions"]] == [(spout, "acked")]


def test_a_message_that_one_language_worked_on_is_finished_by_another(opened: dict[str, Driver]) -> None:
    [first, *_], [*_, last] = opened.values(), opened.values()
    [header] = first.call("emit", spout="again", shared=True, message_id="42", children=["first"])["headers"]
    children = {
        tuple(
            driver.call(
                "process",
                header=header,
                component="split",
                children=["naïve 🦆", "b"],
                then="raise",
                on_error="leave_open",
            )["headers"]
        )
        for driver in opened.values()
    }
    [made] = children
    last.call("process", header=header, component="split", children=["b", "naïve 🦆"])
    for child in made:
        for driver in opened.values():
            driver.call("process", header=child, component="count")
    read = first.call("completions", spout="again", shared=True, count=1)
    assert [each["outcome"] for each in read["completions"]] == ["acked"]
