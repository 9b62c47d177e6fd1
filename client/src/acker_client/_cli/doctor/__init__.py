"""``acker doctor``: what is wrong with an acker, since when, and what to do."""
