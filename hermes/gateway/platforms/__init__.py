"""Chat platforms, a file or a folder each; found by their names."""
