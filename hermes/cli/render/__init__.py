"""Render text for a terminal: streaming markdown, diffs, named styles."""
