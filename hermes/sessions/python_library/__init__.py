"""The agent as a library: `AIAgent` and its callbacks."""
