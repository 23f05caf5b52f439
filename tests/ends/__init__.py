"""Real servers at the other end: run by `make ends`, skipped where they are not installed."""
