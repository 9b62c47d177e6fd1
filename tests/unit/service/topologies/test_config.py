from dataclasses import asdict
from typing import Any

import pytest
from acker_protocol.errors import AckersFixed, InvalidRequest
from acker_protocol.operations import EndOn
from acker_protocol.states import TopologyRules
from acker_service.topologies.config import TopologyConfig, from_stored, merge

OTHER = TopologyConfig(
    ackers=8,
    message_timeout_ms=60_000,
    progress_timeout_ms=5_000,
    max_spout_pending=100,
    dedupe_window_ms=120_000,
    retention_ms=10_000,
    root_details=False,
    trace=0.25,
    end_on=EndOn.ALL_ENDED,
    grace_ms=3_000,
    buckets=64,
)


def test_a_topology_is_by_default_as_the_contract_says() -> None:
    assert TopologyConfig().public() == {
        "ackers": 4,
        "message_timeout_ms": 30_000,
        "progress_timeout_ms": None,
        "max_spout_pending": None,
        "dedupe_window_ms": 0,
        "dedupe_automatic": False,
        "retention_ms": 60_000,
        "root_details": True,
        "trace": 0,
        "end_on": "first_fail",
        "grace_ms": 0,
    }


def test_callers_see_everything_but_the_buckets() -> None:
    assert asdict(OTHER) == OTHER.public() | {"buckets": 64}


@pytest.mark.parametrize(("ackers", "shards"), [(0, 1), (1, 1), (4, 4), (128, 128)])
def test_there_is_a_shard_an_acker_and_one_without(ackers: int, shards: int) -> None:
    assert TopologyConfig(ackers=ackers).shards == shards


@pytest.mark.parametrize(
    ("configuration", "rules"),
    [
        (
            OTHER,
            TopologyRules(
                message_timeout_ms=60_000,
                progress_timeout_ms=5_000,
                dedupe_window_ms=120_000,
                retention_ms=10_000,
                tracked=True,
                end_on=EndOn.ALL_ENDED,
                root_details=False,
                grace_ms=3_000,
            ),
        ),
        (TopologyConfig(), TopologyRules()),
        (TopologyConfig(progress_timeout_ms=0), TopologyRules()),
        (TopologyConfig(ackers=0), TopologyRules(tracked=False)),
    ],
)
def test_the_law_is_told_the_rules_of_a_topology(configuration: TopologyConfig, rules: TopologyRules) -> None:
    assert configuration.rules == rules


def test_a_topology_that_is_made_takes_the_defaults_and_the_buckets_of_the_service() -> None:
    assert merge(None, {}, buckets=16) == TopologyConfig(buckets=16)
    assert merge(None, {"ackers": 0, "retention_ms": 1_000}, buckets=16) == TopologyConfig(
        ackers=0, retention_ms=1_000, buckets=16
    )


def test_what_a_change_leaves_out_stays_and_the_buckets_always_do() -> None:
    assert merge(OTHER, {}, buckets=4_096) == OTHER
    changed = merge(OTHER, {"max_spout_pending": 7}, buckets=4_096)
    assert asdict(changed) == asdict(OTHER) | {"max_spout_pending": 7}


@pytest.mark.parametrize(
    "field",
    [
        "message_timeout_ms",
        "progress_timeout_ms",
        "max_spout_pending",
        "retention_ms",
        "root_details",
        "trace",
        "end_on",
        "grace_ms",
    ],
)
def test_null_is_the_default(field: str) -> None:
    merged = merge(OTHER, {field: None}, buckets=4_096)
    assert asdict(merged) == asdict(OTHER) | {field: asdict(TopologyConfig())[field]}


def test_a_configuration_is_read_as_it_was_stored_but_for_what_a_later_release_knows_of_it() -> None:
    assert from_stored(asdict(OTHER) | {"later": 1}) == OTHER
    assert from_stored({}) == TopologyConfig()


def test_the_present_number_of_ackers_may_be_said_again() -> None:
    assert merge(OTHER, {"ackers": 8}, buckets=4_096) == OTHER


@pytest.mark.parametrize("ackers", [4, None, 0])
def test_another_number_of_ackers_is_refused(ackers: int | None) -> None:
    with pytest.raises(
        AckersFixed, match=rf"was made with 8 ackers; make a new one for {4 if ackers is None else ackers}"
    ):
        merge(OTHER, {"ackers": ackers}, buckets=4_096)


@pytest.mark.parametrize(
    ("document", "why"),
    [
        ({"buckets": 16}, "'buckets' is not a field here"),
        ({"shards": None}, "'shards' is not a field here"),
        ({"dedupe_automatic": True}, "'dedupe_automatic' is not a field here"),
        ({"ackers": 129}, "ackers must be an integer from 0 to 128"),
        ({"ackers": -1}, "ackers must be an integer from 0 to 128"),
        ({"ackers": "4"}, "ackers must be an integer from 0 to 128"),
        ({"message_timeout_ms": 99}, "message_timeout_ms must be an integer from 100 to 604800000"),
        ({"message_timeout_ms": 0}, "message_timeout_ms must be an integer from 100 to 604800000"),
        ({"progress_timeout_ms": 1}, "progress_timeout_ms must be an integer from 100 to 604800000, or 0"),
        ({"max_spout_pending": 0}, "max_spout_pending must be an integer from 1 to 2147483647"),
        ({"retention_ms": 999}, "retention_ms must be an integer from 1000 to 86400000"),
        ({"retention_ms": 86_400_001}, "retention_ms must be an integer from 1000 to 86400000"),
        ({"root_details": 1}, "root_details must be true or false"),
        ({"end_on": "all"}, "end_on must be 'first_fail' or 'all_ended'"),
        ({"trace": True}, "trace must be a number from 0 to 1"),
        ({"trace": "1"}, "trace must be a number from 0 to 1"),
        ({"trace": 1.01}, "trace must be a number from 0 to 1"),
        ({"trace": -0.01}, "trace must be a number from 0 to 1"),
        ({"grace_ms": -1}, "grace_ms must be an integer from 0 to 86400000"),
        ({"grace_ms": 86_400_001}, "grace_ms must be an integer from 0 to 86400000"),
        ({"grace_ms": True}, "grace_ms must be an integer from 0 to 86400000"),
        ({"trace": float("nan")}, "trace must be a number from 0 to 1"),
        ({"dedupe_window_ms": 99}, "dedupe_window_ms must be an integer from 100 to 604800000, or 0"),
        ({"dedupe_window_ms": 604_800_001}, "dedupe_window_ms must be an integer from 100 to 604800000, or 0"),
        ({"dedupe_window_ms": 29_999}, "dedupe_window_ms must be 0 or at least message_timeout_ms"),
    ],
)
@pytest.mark.parametrize("present", [None, TopologyConfig()])
def test_a_configuration_outside_the_contract_is_invalid(
    present: TopologyConfig | None, document: dict[str, Any], why: str
) -> None:
    with pytest.raises(InvalidRequest) as refusal:
        merge(present, document, buckets=16)
    assert refusal.value.detail == why


@pytest.mark.parametrize("document", [{"message_timeout_ms": 120_001}, {"dedupe_window_ms": 59_999}])
def test_a_change_may_not_take_the_message_timeout_past_the_dedupe_window(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match="at least message_timeout_ms"):
        merge(OTHER, document, buckets=16)


@pytest.mark.parametrize(
    "document",
    [
        {"message_timeout_ms": 120_000},
        {"dedupe_window_ms": 60_000},
        {"dedupe_window_ms": 0},
        {"message_timeout_ms": 604_800_000, "dedupe_window_ms": 604_800_000},
    ],
)
def test_a_dedupe_window_of_zero_or_as_long_as_the_message_timeout_is_allowed(document: dict[str, Any]) -> None:
    merged = merge(OTHER, document, buckets=16)
    assert merged.public() == OTHER.public() | document


AUTOMATIC = merge(OTHER, {"dedupe_window_ms": None}, buckets=16)


def test_a_dedupe_window_of_null_is_automatic_and_equals_the_message_timeout() -> None:
    assert AUTOMATIC.public() == OTHER.public() | {"dedupe_window_ms": 60_000, "dedupe_automatic": True}
    created = merge(None, {"dedupe_window_ms": None, "message_timeout_ms": 5_000}, buckets=16)
    assert (created.dedupe_window_ms, created.dedupe_automatic) == (5_000, True)


@pytest.mark.parametrize(
    ("document", "window_ms"),
    [
        ({}, 60_000),
        ({"retention_ms": 7_000}, 60_000),
        ({"message_timeout_ms": 100}, 100),
        ({"message_timeout_ms": None}, 30_000),
        ({"message_timeout_ms": 604_800_000}, 604_800_000),
        ({"message_timeout_ms": 5_000, "dedupe_window_ms": None}, 5_000),
    ],
)
def test_an_automatic_window_follows_the_message_timeout(document: dict[str, Any], window_ms: int) -> None:
    changed = merge(AUTOMATIC, document, buckets=16)
    assert (changed.dedupe_window_ms, changed.dedupe_automatic) == (window_ms, True)
    assert from_stored(asdict(changed)) == changed


@pytest.mark.parametrize("window_ms", [0, 60_000, 90_000])
def test_a_window_of_a_number_is_not_automatic_and_stays(window_ms: int) -> None:
    own = merge(AUTOMATIC, {"dedupe_window_ms": window_ms}, buckets=16)
    changed = merge(own, {"message_timeout_ms": 5_000}, buckets=16)
    assert (changed.dedupe_window_ms, changed.dedupe_automatic) == (window_ms, False)


def test_a_topology_that_was_stored_without_the_field_has_no_automatic_window() -> None:
    stored = from_stored({"message_timeout_ms": 5_000, "dedupe_window_ms": 0})
    assert merge(stored, {}, buckets=16).rules.dedupe_window_ms == 0


@pytest.mark.parametrize(("configuration", "longest_ms"), [(TopologyConfig(), 0), (OTHER, 120_000), (AUTOMATIC, 0)])
def test_only_a_window_of_ones_own_limits_the_timeouts_of_inits(configuration: TopologyConfig, longest_ms: int) -> None:
    assert configuration.longest_timeout_ms == longest_ms


@pytest.mark.parametrize(("ackers", "failures"), [(0, 10_000), (1, 10_000), (4, 2_500), (128, 78)])
def test_the_failures_of_a_topology_are_shared_out_among_its_shards(ackers: int, failures: int) -> None:
    assert TopologyConfig(ackers=ackers).max_failures == failures
