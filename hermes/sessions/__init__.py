"""Wiring of the dependencies and the verbs shared by every front-end."""
