"""Checkpoints: copies of what is about to be changed, taken before the change and
restored when the person wants that.
"""
