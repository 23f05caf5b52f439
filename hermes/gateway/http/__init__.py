"""HTTP and WebSocket for platforms and listeners."""
