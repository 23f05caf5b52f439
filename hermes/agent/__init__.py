"""The conversation loop."""
