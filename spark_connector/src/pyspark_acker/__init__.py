"""Where Spark looks for the data source `acker`, so that `format("acker")` works without registering it."""
