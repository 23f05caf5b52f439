"""The MCP client: servers of the person's as deferred tools, over standard streams and over HTTP."""
