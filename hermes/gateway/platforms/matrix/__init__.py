"""The Matrix platform: its client, its rooms and its event reader."""
