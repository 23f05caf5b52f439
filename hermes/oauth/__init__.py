"""Sign-ins by OAuth 2.1: discovery, registration, the code flow with PKCE, and the store of their tokens.

Who signs in where is a record of the caller's: an MCP server's address, or a vendor.
"""
