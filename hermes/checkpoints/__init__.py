"""Copies of what is about to be changed, taken before it is, and put back when the person wants that."""
