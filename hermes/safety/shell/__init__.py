"""What a shell command would do, read from its text."""
