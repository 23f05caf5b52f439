"""Administration of a home, shared by every front-end: settings, models, keys, people, backups, the service."""
