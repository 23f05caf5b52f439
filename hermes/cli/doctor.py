"""`hermes doctor`: what holds on this machine."""

import asyncio
import os

from hermes.app.health import PROBLEM, examine
from hermes.cli.arguments import Parser
from hermes.cli.report import failed
from hermes.config.environment import process_environment
from hermes.core.errors import HermesError
from hermes.util.text import visible


def run(arguments: list[str]) -> int:
    """Say what holds; 1 when a setting stops Hermes."""
    parser = Parser(
        prog="hermes doctor",
        description="Say what really holds commands back on this machine, when you are asked, and what is trusted.",
        epilog="example: hermes doctor",
    )
    parser.read(arguments)
    try:
        lines = asyncio.run(examine(process_environment(), os.getcwd()))
        for line in lines:
            print(visible(line))
        return 1 if any(line.startswith(PROBLEM) for line in lines) else 0
    except HermesError as error:
        return failed(error)
