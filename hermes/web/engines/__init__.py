"""Search engines, a record a file."""
