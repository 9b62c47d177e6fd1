"""Every interleaving of a small tree with spout, queue, workers, acker and reader, over the shipped state machine."""
