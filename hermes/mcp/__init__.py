"""The MCP client: the person's MCP servers as deferred tools, over standard streams and over HTTP."""
