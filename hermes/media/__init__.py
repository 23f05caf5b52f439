"""Reads documents and pictures of others: each file by a process of its own in a box of the kernel."""
