"""Transcripts and turns in forms that other programs know."""
