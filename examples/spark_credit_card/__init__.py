"""Authorises card payments on Spark, and kills what does it: ``python -m examples.spark_credit_card``."""
