"""Card payments on Spark prove themselves, though driver and spout are killed; carelessness is noticed."""

import re

import pytest

from tests.support.broker import need_broker
from tests.support.java import need_java
from tests.support.pipelines import run_pipeline

pytestmark = [pytest.mark.timeout(1_000), pytest.mark.usefixtures("_needed")]


@pytest.fixture(scope="module")
def _needed() -> None:
    need_broker()
    need_java()


def test_no_order_is_lost_none_charged_twice_and_each_is_told() -> None:
    code, said = run_pipeline("spark_credit_card", "--orders", "60", "--prefetch", "15")
    assert code == 0, said
    for claim in (
        "every order has its status: 53 authorised, 6 declined, 1 invalid",
        "53 cards were charged, each once",
        r"the second system got a notice of each of the 60 orders, in \d+ notices",
        "what was no order at all was reported and acked",
        "0 deliveries are in the queue, and 0 trees are pending",
        r"[1-9]\d* trees failed, and their orders came again",
        r"the driver was killed with SIGKILL in the middle of a batch, with \d+ orders settled",
        r"the spout was killed with SIGKILL with \d+ orders acked and \d+ held, and [1-9]\d* deliveries",
    ):
        assert re.search(f"^  proven  {claim}", said, re.MULTILINE), said


def test_without_a_look_at_the_database_cards_are_charged_twice() -> None:
    code, said = run_pipeline("spark_credit_card", "--orders", "40", "--prefetch", "10", "--careless")
    assert code == 1, said
    assert re.search(r"^  WRONG   [1-9]\d* cards were charged more than once", said, re.MULTILINE), said
