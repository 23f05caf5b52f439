"""Homes of other agents: recognising them, saying what is in them, taking it over."""
