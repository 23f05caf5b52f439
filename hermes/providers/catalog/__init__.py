"""One file a provider, each with a `RECORD`; found by scan, imported when used. A provider is data, not code."""
