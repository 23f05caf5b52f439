"""Leaf helpers: one job a file, standard library only."""
