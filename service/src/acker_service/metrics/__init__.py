"""Metrics and logs. The only package that imports prometheus_client."""
