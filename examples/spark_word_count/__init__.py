"""Counts the words of a book on Spark, and replays what fails: ``python -m examples.spark_word_count``."""
