"""Sub-agents: sessions that work for another session."""
