"""``format("acker")``: the completions of a spout task as a source of Spark, streaming and batch."""

from acker_spark.source.datasource import CompletionsSource

__all__ = ["CompletionsSource"]
