"""The wire form of the contract: the reference codec, in plain Python."""
