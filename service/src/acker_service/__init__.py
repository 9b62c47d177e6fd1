"""The acker as a service: FastAPI in front, Redis behind."""
