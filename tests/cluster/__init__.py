"""Cuts, freezes and kills a cluster of several hosts on one machine, and audits what it had acknowledged."""
