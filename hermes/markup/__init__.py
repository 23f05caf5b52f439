"""Parses Markdown into blocks and runs for every front-end; each draws them its own way."""
