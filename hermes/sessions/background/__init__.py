"""Work that a session does by itself: goals."""
