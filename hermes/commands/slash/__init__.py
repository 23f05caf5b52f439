"""The slash commands, one file each, for every front-end."""
