"""The start of the program that an MCP client runs."""

import os
from collections.abc import Mapping

from hermes.mcp_server.options import McpServeOptions
from hermes.mcp_server.server import PipePair, run_server


def serve(environ: Mapping[str, str], options: McpServeOptions, version: str) -> int:
    """Serve the program at standard input and output until it goes away; return the exit code.

    What anything else prints goes to standard error, so that it cannot come between messages.
    """
    pipes = PipePair(os.dup(0), os.dup(1))
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    os.dup2(2, 1)
    return run_server(environ, options, version, pipes)
