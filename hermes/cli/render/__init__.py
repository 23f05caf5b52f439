"""Text for a terminal: markdown as it streams in, differences of files, colours by name."""
