"""How the service tells of itself: its log and its metrics."""
