"""The model's input: the system prompt, what is frozen into a turn, and the compression of long conversations."""
