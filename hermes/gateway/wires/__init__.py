"""The wires of single platforms: their values and requests, where a platform's one file would grow too long."""
