"""Where Spark looks for ``format("acker")``, by the beginning of this package's name; nobody needs to register it."""

from acker_spark.datasource import CompletionsSource as DefaultSource

__all__ = ["DefaultSource"]
