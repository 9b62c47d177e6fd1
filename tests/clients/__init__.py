"""What belongs to one client of another language alone."""
