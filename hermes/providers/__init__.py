"""The wire: core messages to and from vendor HTTP, streaming. A vendor is a record, not code."""
