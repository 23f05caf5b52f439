"""What a model is shown: the system prompt and what is frozen into a turn."""
