"""The Agent Client Protocol: editors drive Hermes over standard input and output."""
