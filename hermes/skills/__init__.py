"""Skills: folders of instructions that the agent finds by a line, reads when it needs them, and learns to write."""
