"""The store: sessions, epochs, messages, turns and effects in SQLite, with the search index beside them."""
