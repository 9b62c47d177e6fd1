"""Short rounds of the long faults: they keep the promise, find known mistakes, and two commits serve one store."""
