"""One message of two lines of names, as a tree of eight edges, of which one is delivered twice."""
