"""A tag tells rows apart by all that they hold and Spark can hash, whatever their columns are called."""

from typing import Any

import pytest
from acker_spark._batch.columns import tag
from pyspark.sql import functions as F


@pytest.mark.parametrize(
    "column",
    [
        "named_struct('geo_id', {})",
        "array(named_struct('variant', {}))",
        "named_struct('map<', {}, 'maps', array({}))",
        "named_struct('m', map('k', 0), 'n', 0)",
        "array(map('k', {}))",
        "parse_json(string({}))",
    ],
)
def test_rows_that_differ_have_tags_that_differ_where_spark_can_hash_them(spark: Any, column: str) -> None:
    frame = spark.createDataFrame([(0,), (1,), (1,)], "n int").select(F.expr(column.replace("{}", "n")).alias("c"))
    places = frame.select(F.shiftright(tag(frame), 32).alias("content")).collect()
    hashed = "map(" not in column and "parse_json" not in column
    assert len({row.content for row in places}) == (2 if hashed else 1)


def test_equal_rows_have_tags_that_differ_in_one_partition_and_in_several(spark: Any) -> None:
    frame = spark.range(0, 100, 1, 4).select(F.lit(1).alias("n"))
    assert len({row.tag for row in frame.select(tag(frame).alias("tag")).collect()}) == 100


def test_spark_compiles_the_code_of_tags_once(spark: Any) -> None:
    """Each call here has a seed of its own, as each batch of a stream has."""
    compiled = spark.sparkContext._jvm.org.apache.spark.metrics.source.CodegenMetrics.METRIC_COMPILATION_TIME()
    frame = spark.range(4)
    frame.select(tag(frame)).collect()
    before = compiled.getCount()
    frame.select(tag(frame)).collect()
    assert compiled.getCount() == before
