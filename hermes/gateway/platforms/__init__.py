"""Chat platforms, each a file or a folder, found by name."""
