"""Orders through a spout in Python and bolts in JavaScript, Go and Java, while every process is killed."""
