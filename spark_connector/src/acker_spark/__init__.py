"""Acking for Spark: attaches a job to an acker, so that the sender of each message hears when all of it is done."""
