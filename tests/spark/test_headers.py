"""Rows carry their anchors in the header ``Acker-Anchors``, as the Python client reads and writes it."""

from typing import Any

import pytest
from acker_client import Anchor, Anchors
from acker_protocol.ids import format_id
from acker_spark import ANCHORS_COLUMN, EDGE_COLUMN, ROOT_COLUMN, errors
from acker_spark import functions as af
from acker_spark._batch.columns import unsigned
from acker_spark.headers import KAFKA_TYPE, read_header, write_header
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from tests.docs import test_anchors as page
from tests.spark.tracked import Tracked, expect_outcomes

NAME = "Acker-Anchors"


def nothing(batch: Any, batch_id: int, collector: Any) -> None:
    """Do nothing."""


def begin(tracked: Tracked, **roots: int) -> None:
    """Emit roots with one edge each, as a spout outside Spark does; the message id is the name."""
    ops = [
        {
            "op": "init",
            "root_id": format_id(one),
            "ack_val": format_id(one + 1),
            "message_id": name,
            "spout_task": "reader",
        }
        for name, one in roots.items()
    ]
    assert tracked.acker().topology.dedupe_window_ms
    assert tracked.post("/batch", {"ops": ops})["results"] == ["pending"] * len(ops)


def header(tracked: Tracked, *roots: int) -> str:
    """The header of a message with the anchors of these roots."""
    anchors = tuple(Anchor(root_id=one, edge_id=one + 1) for one in roots)
    return Anchors(topology=tracked.topology, anchors=anchors).headers()[NAME]


def messages(spark: Any, *values: tuple[int, str | None]) -> Any:
    """Messages with their headers, as Kafka's source gives them."""
    rows = spark.createDataFrame(values, "id long, value string")
    pairs = F.array(
        F.struct(F.lit("trace").alias("key"), F.lit("t1").cast("binary").alias("value")),
        F.struct(F.lit(NAME.lower()).alias("key"), F.col("value").cast("binary").alias("value")),
    )
    return rows.select("id", F.when(F.col("value").isNotNull(), pairs).cast(KAFKA_TYPE).alias("headers"))


def sent_anchors(row: Any, tracked: Tracked) -> list[tuple[int, int]]:
    """The anchors in Kafka's headers of a row, as the client reads them."""
    value = dict(row.headers)[NAME].decode()
    version, topology, listed = value.split(" ")
    assert (version, topology) == ("00", tracked.topology)
    return [(int(one[:16], 16), int(one[17:], 16)) for one in listed.split(",")]


def test_every_header_of_the_contract_is_read_and_written_again(spark: Any) -> None:
    for value, topology, listed in page.rows("value | topology | anchors"):
        name = page.code(topology)
        frame = spark.createDataFrame([(f" {page.code(value)}\t",)], "h string")
        rows = frame.withColumn(ANCHORS_COLUMN, read_header(frame, "h", name))
        [row] = rows.withColumn("written", write_header(name, rows)).collect()
        found = [f"`{unsigned(one.root):x}-{unsigned(one.edge):x}`" for one in row[ANCHORS_COLUMN]]
        assert (found, row.written) == (listed.split(), page.code(value))


COLLATIONS = ["UTF8_LCASE", "UNICODE", "UNICODE_CI_AI", "tr_CI"]


@pytest.mark.parametrize("collation", COLLATIONS)
def test_anchors_are_read_from_texts_of_any_collation(spark: Any, tracked: Tracked, collation: str) -> None:
    """In a column of each form, and as two columns of digits, which are compared as bytes."""
    value = F.collate(F.lit(f"00 {tracked.topology} 00000000000000a1-00000000000000b1"), collation)
    name = F.collate(F.lit(NAME), collation)
    pair = F.struct(name.alias("key"), value.alias("value"))
    forms = {"value": value, "map": F.create_map(name, value), "pairs": F.array(pair)}
    acker = tracked.acker(query_id="q")
    frame = spark.range(1).select(*(column.alias(form) for form, column in forms.items()))
    for form in forms:
        [row] = acker.received(frame, headers=form).collect()
        assert (form, row[ROOT_COLUMN], row[EDGE_COLUMN]) == (form, 0xA1, 0xB1)
    digits = [F.collate(F.lit(text), collation) for text in ("00000000000000a1", "00000000000000b1")]
    ids = spark.range(1).select(digits[0].alias("r"), digits[1].alias("e"), F.upper(digits[0]).alias("upper"))
    [row] = acker.received(ids, root="r", edge="e").select(ROOT_COLUMN, EDGE_COLUMN).collect()
    assert tuple(row) == (0xA1, 0xB1)
    [row] = acker.received(ids, root="upper", edge="e").select(ROOT_COLUMN).collect()
    assert row[ROOT_COLUMN] is None


def test_every_header_that_the_contract_refuses_ends_the_job_and_is_shown(spark: Any) -> None:
    refused = [page.code(value) for value, _ in page.rows("value | because")]
    for value in [*refused, page.MANY, "", "00 other 00000000000000a1-00000000000000b1"]:
        frame = spark.createDataFrame([(value,)], "h string")
        with pytest.raises(PySparkException) as caught:
            frame.select(read_header(frame, "h", "orders")).collect()
        assert f"of a row is invalid, or of another topology than 'orders': {value}" in str(caught.value)


@pytest.mark.parametrize("form", ["the value", "bytes", "a map", "Kafka's headers"])
def test_the_header_may_stand_in_any_form_and_be_missing(spark: Any, form: str) -> None:
    value = "00 orders 00000000000000a1-00000000000000b1"
    columns = {
        "the value": F.col("h"),
        "bytes": F.col("h").cast("binary"),
        "a map": F.when(F.col("h").isNotNull(), F.create_map(F.lit("acker-anchors"), F.col("h"))),
        "Kafka's headers": F.when(
            F.col("h").isNotNull(),
            F.array(F.struct(F.lit(NAME).alias("key"), F.col("h").cast("binary").alias("value"))),
        ),
    }
    frame = spark.createDataFrame([(value,), (None,)], "h string").select(columns[form].alias("h"))
    found = [
        [unsigned(one.root) for one in row.a]
        for row in frame.select(read_header(frame, "h", "orders").alias("a")).collect()
    ]
    assert found == [[0xA1], []]


NULLS = {
    "Kafka's headers": "array(named_struct('key', 'Acker-Anchors', 'value', CAST(NULL AS BINARY)))",
    "texts in an array": "array(named_struct('key', 'ACKER-ANCHORS', 'value', CAST(NULL AS STRING)))",
    "a map of texts": "map('trace', 't1', 'acker-anchors', CAST(NULL AS STRING))",
    "a map of bytes": "map('Acker-Anchors', CAST(NULL AS BINARY))",
}


@pytest.mark.parametrize("form", NULLS)
def test_a_header_that_is_there_with_a_null_ends_the_job_as_any_invalid_one(spark: Any, form: str) -> None:
    """The row came with the header: without anchors it would not be tracked, and its root would time out."""
    frame = spark.range(1).select(F.expr(NULLS[form]).alias("h"))
    with pytest.raises(PySparkException, match="of a row is invalid, or of another topology than 'orders': null"):
        frame.select(read_header(frame, "h", "orders")).collect()


NONE = {
    "no headers": f"CAST(NULL AS {KAFKA_TYPE})",
    "no pairs": f"CAST(array() AS {KAFKA_TYPE})",
    "another header with a null": "array(named_struct('key', 'trace', 'value', CAST(NULL AS BINARY)))",
    "a map without it": "map('trace', CAST(NULL AS STRING))",
}


@pytest.mark.parametrize("form", NONE)
def test_a_row_whose_headers_have_no_anchors_is_not_tracked(spark: Any, form: str) -> None:
    frame = spark.range(1).select(F.expr(NONE[form]).alias("h"))
    [row] = frame.select(read_header(frame, "h", "orders").alias("anchors")).collect()
    assert row.anchors == []


def test_a_header_that_appears_twice_ends_the_job(spark: Any) -> None:
    pair = F.struct(F.lit(NAME).alias("key"), F.lit("00 orders 1-1").alias("value"))
    frame = spark.range(1).select(F.array(pair, pair).alias("h"))
    with pytest.raises(PySparkException, match="a row has Acker-Anchors more than once: 2"):
        frame.select(read_header(frame, "h", "orders")).collect()


def test_a_column_that_cannot_hold_headers_is_refused(spark: Any, tracked: Tracked) -> None:
    acker = tracked.acker()
    with pytest.raises(errors.UsageError, match="not bigint"):
        acker.received(spark.range(1), headers="id")
    with pytest.raises(errors.UsageError, match="either headers= or root="):
        acker.received(spark.range(1), headers="id", root="id")


def test_more_anchors_than_a_header_holds_end_the_job(spark: Any) -> None:
    one = F.struct(F.lit(1).cast("long").alias("root"), F.lit(2).cast("long").alias("edge"))
    frame = spark.range(1).select(F.array_repeat(one, 65).alias(ANCHORS_COLUMN))
    with pytest.raises(PySparkException, match="at most 64 anchors, and a row has 65"):
        frame.select(write_header("orders", frame)).collect()


def test_every_anchor_of_a_header_is_acked_and_a_message_without_one_is_not_tracked(
    spark: Any, tracked: Tracked
) -> None:
    begin(tracked, a=10, b=20, c=30)
    seen: list[int] = []
    acker = tracked.acker(query_id="q")
    arrived = messages(spark, (1, header(tracked, 10, 20)), (2, header(tracked, 30)), (3, None))
    acker.foreach_batch(lambda batch, _, __: seen.extend(row.id for row in batch.collect()))(
        acker.received(arrived, headers="headers"), 0
    )
    expect_outcomes(tracked, {"a": "acked", "b": "acked", "c": "acked"})
    assert sorted(seen) == [1, 2, 3]


def test_a_message_with_a_header_that_is_delivered_twice_is_acked_once(spark: Any, tracked: Tracked) -> None:
    begin(tracked, a=10, b=20)
    for one in (10, 20):
        tracked.hold(one, "00000000000000ff")
    seen: list[int] = []
    acker, value = tracked.acker(query_id="q"), header(tracked, 10, 20)
    arrived = acker.received(messages(spark, (1, value), (1, value)), headers="headers")
    run = acker.foreach_batch(lambda batch, _, __: seen.append(batch.count()))
    run(arrived, 0)
    run(arrived, 1)
    assert seen == [1, 1]
    assert tracked.outcomes() == {}
    for one in (10, 20):
        last = {"root_id": format_id(one), "ack_val": "00000000000000ff", "edge_id": "00000000000000fe"}
        assert tracked.post("/ack", last)["state"] == "acked"


def test_deduplicating_rows_by_their_anchors_keeps_every_message_without_a_header(spark: Any, tracked: Tracked) -> None:
    value = header(tracked, 10, 20)
    rows = messages(spark, (1, value), (1, value), (2, None), (2, None))
    arrived = tracked.acker().received(rows, headers="headers").dropDuplicates([ROOT_COLUMN, EDGE_COLUMN])
    assert sorted(row.id for row in arrived.collect()) == [1, 2, 2]


def test_failing_a_row_fails_the_roots_of_all_its_anchors(spark: Any, tracked: Tracked) -> None:
    begin(tracked, a=10, b=20, c=30)
    acker = tracked.acker(query_id="q")
    arrived = messages(spark, (1, header(tracked, 10, 20)), (2, header(tracked, 30)), (3, None))
    failing = acker.foreach_batch(lambda batch, _, collector: collector.fail(batch.where("id != 2"), "no"))
    failing(acker.received(arrived, headers="headers"), 0)
    expect_outcomes(tracked, {"a": "failed", "b": "failed", "c": "acked"})


def test_what_is_emitted_to_kafka_carries_a_new_edge_for_each_anchor(spark: Any, tracked: Tracked) -> None:
    begin(tracked, a=10, b=20)
    sent: list[Any] = []
    acker = tracked.acker(query_id="q")

    def send(batch: Any, batch_id: int, collector: Any) -> None:
        parts = batch.withColumn("part", F.explode(F.array(F.lit("x"), F.lit("y"))))
        out = collector.emit(parts, "topic", key=["part"])
        assert not {ROOT_COLUMN, EDGE_COLUMN} & set(out.columns)
        sent.extend(out.withColumn("headers", acker.kafka_headers(out, others="headers")).collect())

    arrived = messages(spark, (1, header(tracked, 10, 20)), (2, None))
    acker.foreach_batch(send)(acker.received(arrived, headers="headers"), 0)
    assert tracked.pending() == {"a", "b"}
    assert [[name for name, _ in row.headers] for row in sorted(sent, key=lambda row: row.id)] == [
        ["trace", NAME]
    ] * 2 + [[]] * 2
    for row in (row for row in sent if row.id == 1):
        anchors = sent_anchors(row, tracked)
        assert [root for root, _ in anchors] == [10, 20]
        for root, edge in anchors:
            tracked.ack(root, edge)
    expect_outcomes(tracked, {"a": "acked", "b": "acked"})


def test_equal_keys_of_rows_with_a_header_are_refused(spark: Any, tracked: Tracked) -> None:
    begin(tracked, a=10, b=20)
    acker = tracked.acker(query_id="q")
    arrived = acker.received(messages(spark, (1, header(tracked, 10, 20))), headers="headers")
    twice = arrived.withColumn("part", F.explode(F.array(F.lit("x"), F.lit("y"))))
    with pytest.raises(errors.DuplicateKey, match="2 rows of root"):
        acker.foreach_batch(lambda batch, _, collector: collector.emit(batch, "topic", key=["id"]))(twice, 0)
    assert tracked.pending() == {"a", "b"}


def test_at_row_level_too_every_anchor_of_a_header_is_split_forwarded_and_acked(spark: Any, tracked: Tracked) -> None:
    begin(tracked, a=10, b=20)
    sent: list[Any] = []
    acker = tracked.acker(query_id="q")
    arrived = acker.received(messages(spark, (1, header(tracked, 10, 20)), (2, None)), headers="headers")
    parts = af.explode(arrived, F.array(F.lit("x"), F.lit("y"), F.lit("z")), "part", stage="parts")
    chosen = af.filter(parts, "part != 'z'")

    def send(rows: Any, batch_id: int) -> None:
        sent.extend(rows.withColumn("headers", acker.kafka_headers(rows)).collect())

    acker.forward_rows(send)(chosen, 0)
    assert tracked.pending() == {"a", "b"}
    assert sorted((row.id, row.part, len(row.headers)) for row in sent) == [
        (1, "x", 1),
        (1, "y", 1),
        (2, "x", 0),
        (2, "y", 0),
    ]
    again = tracked.acker(query_id="next")
    rows = spark.createDataFrame(
        [(row.id, dict(row.headers)[NAME].decode()) for row in sent if row.id == 1], "id long, h string"
    )
    again.foreach_rows(lambda _, __: None)(again.received(rows, headers="h"), 0)
    expect_outcomes(tracked, {"a": "acked", "b": "acked"})


def test_a_frame_that_kept_only_the_first_of_its_anchors_is_refused(spark: Any, tracked: Tracked) -> None:
    begin(tracked, a=10, b=20)
    acker = tracked.acker(query_id="q")
    arrived = acker.received(messages(spark, (1, header(tracked, 10, 20))), headers="headers").drop(ANCHORS_COLUMN)
    for function in (acker.foreach_batch(nothing), acker.foreach_rows(lambda _, __: None)):
        with pytest.raises(errors.MissingAnchors, match=ANCHORS_COLUMN):
            function(arrived, 0)
    assert tracked.pending() == {"a", "b"}
