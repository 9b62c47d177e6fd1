"""Topologies and their spout tasks: configuration, stamps, shards, deletion."""
