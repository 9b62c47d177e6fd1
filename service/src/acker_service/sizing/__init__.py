"""How large an acker has to be: what operations cost, measured, and what a load needs."""
