import pytest
from acker_protocol import routes

ADDRESSES = [
    (routes.topologies(), "/v1/topologies"),
    (routes.topology("orders"), "/v1/topologies/orders"),
    (routes.operation("orders", "init"), "/v1/topologies/orders/init"),
    (routes.operation("orders", "reset-timeout"), "/v1/topologies/orders/reset-timeout"),
    (routes.operation("orders", "batch"), "/v1/topologies/orders/batch"),
    (routes.root("orders", "00000000000000a1"), "/v1/topologies/orders/roots/00000000000000a1"),
    (routes.roots("orders"), "/v1/topologies/orders/roots"),
    (routes.root_states("orders"), "/v1/topologies/orders/roots/states"),
    (routes.force_fail("orders", "00000000000000a1"), "/v1/topologies/orders/roots/00000000000000a1/fail"),
    (routes.spouts("orders"), "/v1/topologies/orders/spouts"),
    (routes.spout("orders", "reader-1"), "/v1/topologies/orders/spouts/reader-1"),
    (routes.completions("orders", "reader-1"), "/v1/topologies/orders/spouts/reader-1/completions"),
    (routes.release("orders", "reader-1"), "/v1/topologies/orders/spouts/reader-1/completions/release"),
    (routes.rotate("orders", "reader-1"), "/v1/topologies/orders/spouts/reader-1/secret/rotate"),
    (routes.resume("orders", "reader-1"), "/v1/topologies/orders/spouts/reader-1/resume"),
    (routes.pause("orders", "reader-1"), "/v1/topologies/orders/spouts/reader-1/pause"),
    (routes.webhook_test("orders", "reader-1"), "/v1/topologies/orders/spouts/reader-1/test"),
    (routes.dead_letters("orders", "reader-1"), "/v1/topologies/orders/spouts/reader-1/dead-letters"),
    (routes.replay("orders", "reader-1"), "/v1/topologies/orders/spouts/reader-1/dead-letters/replay"),
    (routes.channel("orders", "reader-1"), "acker:orders:reader-1"),
]
HEADERS = [
    (routes.IDEMPOTENCY_KEY, "Idempotency-Key"),
    (routes.IDEMPOTENCY_REPLAYED, "Idempotency-Replayed"),
    (routes.ANCHORS, "Acker-Anchors"),
]


@pytest.mark.parametrize(("address", "contract"), ADDRESSES)
def test_an_address_is_that_of_the_contract(address: str, contract: str) -> None:
    assert address == contract


@pytest.mark.parametrize(("header", "contract"), HEADERS)
def test_a_header_is_that_of_the_contract(header: str, contract: str) -> None:
    assert header == contract
