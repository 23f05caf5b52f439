"""The chat in plain lines, for terminals that can show no more."""
