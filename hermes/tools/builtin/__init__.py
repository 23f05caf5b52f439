"""The built-in tools: one file a tool, found by scan."""
