"""The start of the program that an MCP client runs."""

from collections.abc import Mapping

from hermes.mcp_server.options import McpServeOptions
from hermes.mcp_server.server import run_server
from hermes.util.standard_streams import take_standard_streams


def serve(environ: Mapping[str, str], options: McpServeOptions, version: str) -> int:
    """Serve the program at standard input and output until it goes away; return the exit code."""
    incoming, outgoing = take_standard_streams()
    return run_server(environ, options, version, incoming, outgoing)
