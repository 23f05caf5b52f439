"""The revisions of the Model Context Protocol that are spoken, as client and as server, and its own error codes."""

STATELESS_VERSION = "2026-07-28"
"""The revision without sessions; each message says of itself what it is."""
SESSION_VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The revisions that begin with `initialize`, the newest first."""
PROTOCOL_VERSIONS = (STATELESS_VERSION, *SESSION_VERSIONS)
"""The protocol versions that are spoken, the newest first."""
META_PREFIX = "io.modelcontextprotocol/"
"""What the names begin with that a message of the stateless revision says of itself."""
UNSUPPORTED_VERSION, HEADER_MISMATCH, MISSING_CAPABILITY = -32022, -32020, -32021
