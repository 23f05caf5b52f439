"""The records of the search engines, one a file."""
