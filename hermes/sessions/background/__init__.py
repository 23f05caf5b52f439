"""Work that a session does by itself: goals, and sessions beside the one that is talked with."""
