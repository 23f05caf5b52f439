"""What the agent remembers beyond a session."""
