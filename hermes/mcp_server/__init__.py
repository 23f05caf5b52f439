"""Hermes as a server of the Model Context Protocol, on standard input and output."""
