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
