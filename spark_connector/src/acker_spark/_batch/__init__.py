"""What happens to a batch between Spark and the acker; private."""
