"""One message of two lines of names, as a tree of eight edges; one is delivered twice."""
