"""Spouts that read other systems: RabbitMQ, and the offsets of a partition."""
