"""Applies operations: decodes a batch, splits it by shard, sends it to Redis, gathers the results."""
