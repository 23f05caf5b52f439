"""The model of a session: endpoint, credentials, fallback route, and what its calls may cost."""
