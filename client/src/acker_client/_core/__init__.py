"""The decisions of the client, without I/O: generators yield effects, and a driver runs them."""
