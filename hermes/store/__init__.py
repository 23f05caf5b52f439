"""Sessions, epochs, messages, turns and effects in SQLite, and the search index beside them."""
