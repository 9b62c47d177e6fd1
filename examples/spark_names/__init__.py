"""Greets names on Spark, one of which fails: ``python -m examples.spark_names``."""
