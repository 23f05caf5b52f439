"""Providers: core messages to and from vendors' HTTP APIs, with streaming. A vendor is a record, not code."""
