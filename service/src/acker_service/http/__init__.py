"""The HTTP layer: routes, authentication, limits. Beside server and app the only package that imports FastAPI."""
