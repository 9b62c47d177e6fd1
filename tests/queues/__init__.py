"""Celery and Dramatiq with an acker, on real brokers, with workers that die."""
