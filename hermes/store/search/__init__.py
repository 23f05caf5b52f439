"""The search index: its file, its text, its queries."""
