"""The agent's memory beyond a session: its files, their changes, memory providers, session search and review."""
