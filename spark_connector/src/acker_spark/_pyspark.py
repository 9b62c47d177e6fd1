"""Checks that PySpark is there, which no installation of the connector brings unless an extra asks for one."""

OLDEST = 4


def check_pyspark() -> None:
    """Raise `ImportError`, with words, where there is no PySpark or one that is too old."""
    try:
        import pyspark  # noqa: PLC0415 - the package does not depend on it
    except ModuleNotFoundError:
        found = "none"
    else:
        found = str(pyspark.__version__)
        if int(found.partition(".")[0]) >= OLDEST:
            return
    raise ImportError(
        f"acker_spark needs PySpark {OLDEST}.0 or later, and this Python has {found}: "
        "pip install 'acker-spark[pyspark]', or 'acker-spark[connect]' for the thin client of Spark Connect"
    )


check_pyspark()
