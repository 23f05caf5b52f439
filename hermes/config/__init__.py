"""Typed settings, the layout of the home, and the only reader of the environment."""
