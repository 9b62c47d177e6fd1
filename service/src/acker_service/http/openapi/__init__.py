"""The document of the API, which `/openapi.json` answers: what stands beside the routes for who writes a client."""
