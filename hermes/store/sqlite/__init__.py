"""SQLite: connections, one writer thread, migrations."""
