"""Moving to more ackers, as the page tells it, loses nothing."""

from collections import Counter
from pathlib import Path

from tests.support.pages import DOCS, run
from tests.support.servers import acker_serve

PAGE = DOCS / "more-ackers.md"


def test_every_root_emitted_before_during_and_after_the_move_is_told_once_as_acked(tmp_path: Path) -> None:
    with acker_serve(tmp_path / "acker", "--data-dir", str(tmp_path / "data")) as acker:
        run(PAGE.read_text(), "python", url=acker.url, folder=tmp_path)
        topologies = {found["topology"]: found for found in acker.http.get("/v1/topologies").json()["topologies"]}
    assert topologies.keys() == {"default", "orders-8"}
    assert topologies["orders-8"]["counts"]["acked"] == 90
    emitted = (tmp_path / "emitted.txt").read_text().splitlines()
    told = Counter((tmp_path / "told.txt").read_text().splitlines())
    assert emitted == [f"order-{number}" for number in range(150)]
    assert told == {f"{order} acked": 1 for order in emitted}
