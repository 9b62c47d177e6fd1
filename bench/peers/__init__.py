"""Other systems that tell when a message and all that grew out of it is done, on the same tree of work."""
