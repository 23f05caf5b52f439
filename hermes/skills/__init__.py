"""Skills: folders of instructions that the agent finds in an index, reads when it needs them, and learns to write."""
