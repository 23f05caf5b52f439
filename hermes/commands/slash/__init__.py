"""The built-in slash commands, one file per family, for every front-end."""
