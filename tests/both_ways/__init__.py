"""The fast path and FastAPI alone, held equal: the same answers and the same effects."""
