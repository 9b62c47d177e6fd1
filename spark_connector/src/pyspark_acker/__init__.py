"""Spark finds ``format("acker")`` by the beginning of this package's name, without ``register()``."""

from acker_spark.source import CompletionsSource as DefaultSource

__all__ = ["DefaultSource"]
