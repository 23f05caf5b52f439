"""`python -m hermes.testing`: run the scripted model server for a shell, a benchmark or a demonstration.

Prints its URL as the first line and serves until it is interrupted, terminated or its standard input
closes (with
`--until-eof`).
"""

import argparse
import asyncio
import contextlib
import signal
import sys
from pathlib import Path

import msgspec

from hermes.core.errors import UsageError
from hermes.testing.obedient_model import ObedientModel
from hermes.testing.script import Reply, ReplyModel, RoundsModel, Say, ScriptedModel
from hermes.testing.server import ScriptedServer
from hermes.testing.template_rules import NAMED_RULES


def parse_arguments(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(prog="python -m hermes.testing", description="A scripted model server.")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--script", type=Path, help='JSON: [{"reply": "say", "text": "hi"}, {"reply": "fail", ...}]')
    kind.add_argument("--obey", action="store_true", help="do what lines `DO: tool {json}` and `SAY: text` order")
    kind.add_argument("--rounds", type=int, help="call a tool so many times, then answer")
    kind.add_argument("--say", default="Hello.", help="always answer this text")
    parser.add_argument("--tool", default="read_file", help="the tool of --rounds")
    parser.add_argument(
        "--arguments", default='{"path": "notes.txt", "offset": {n}, "limit": 1}', help="of --rounds; {n} is the round"
    )
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument(
        "--strict",
        nargs="?",
        const=True,
        default=False,
        choices=(True, *NAMED_RULES),
        metavar="SERVER",
        help=f"refuse what real vendors refuse, and what a server does: {', '.join(NAMED_RULES)}",
    )
    parser.add_argument("--context-length", type=int, help="what /models tells about the model")
    parser.add_argument("--keep", type=int, default=1, help="how many requests keep their bodies")
    parser.add_argument("--until-eof", action="store_true", help="stop when standard input, a pipe, closes")
    return parser.parse_args(arguments)


def build_model(options: argparse.Namespace) -> ReplyModel:
    """Build the model that the options describe."""
    if options.script:
        try:
            replies = msgspec.json.decode(options.script.read_bytes(), type=list[Reply])
        except (OSError, msgspec.DecodeError) as error:
            raise UsageError(f"{options.script}: {error}", "A script is a JSON list of replies.") from error
        return ScriptedModel(replies)
    if options.obey:
        return ObedientModel()
    if options.rounds is not None:
        return RoundsModel(options.rounds, tool=options.tool, arguments=options.arguments)
    return ScriptedModel(lambda _: Say(options.say))


class _StopAtEof(asyncio.Protocol):
    """Stops the server when its parent's end of the pipe is gone."""

    def __init__(self, stop: asyncio.Event) -> None:
        self._stop = stop

    def eof_received(self) -> None:
        self._stop.set()


async def run_server(options: argparse.Namespace) -> None:
    """Serve until told to stop."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    server = ScriptedServer(
        build_model(options),
        port=options.port,
        strict=options.strict,
        keep=options.keep,
        context_length=options.context_length,
    )
    async with server:
        sys.stdout.write(server.url + "\n")
        sys.stdout.flush()
        if options.until_eof:
            await loop.connect_read_pipe(lambda: _StopAtEof(stop), sys.stdin)
        await stop.wait()


def main() -> int:
    """Run the command."""
    try:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(run_server(parse_arguments()))
    except UsageError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    sys.exit(main())
