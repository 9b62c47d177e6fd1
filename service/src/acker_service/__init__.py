"""The acker as a service: FastAPI in front, Redis behind."""

VERSION = "0.1.0"
