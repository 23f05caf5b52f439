"""`hermes serve`: the door for programs, with runs, events and sessions over HTTP."""

import importlib
import sys
from contextlib import suppress

from hermes.cli.commands.gateway import require_gateway_packages
from hermes.cli.fault_log import build_lazy_redactor, install_fault_log
from hermes.commands.verb import JSON_OPTION, Verb, VerbCall, VerbResult, argument
from hermes.config.home import locate_home
from hermes.core.encoding import to_json, to_plain
from hermes.core.errors import UsageError
from hermes.i18n.messages import N_, localize, tr
from hermes.sessions.options import SessionOptions
from hermes.util.text import escape_unseen_characters

SERVE = Verb(
    "serve",
    description="Serve programs over HTTP, until Ctrl-C: runs, events and sessions, and no chats (docs/programs.md). "
    "Settings and keys are those of platforms.api_server; without a key, one is made for this run and printed.",
    example="hermes serve --port 0 --json",
)
_LARGEST_PORT = 65_535


@SERVE.action(
    "",
    "serve programs",
    argument("--host", default="", metavar="ADDRESS", help="the address to listen on (usually 127.0.0.1)"),
    argument("--port", type=int, default=None, metavar="N", help="the port to listen on; 0 takes a free one"),
    argument("--openapi", action="store_true", help="print the OpenAPI document of the API, and serve nothing"),
    JSON_OPTION,
)
def serve_programs(call: VerbCall) -> VerbResult:
    """Run the gateway with the API server alone, in this process."""
    args = call.args
    if args.port is not None and not 0 <= args.port <= _LARGEST_PORT:
        raise UsageError(N_("A port is a number from 0 to {most}.", most=_LARGEST_PORT))
    require_gateway_packages()
    # Front-ends know nothing of each other: the gateway is started by its name.
    if args.openapi:
        from hermes import __version__

        openapi = importlib.import_module("hermes.gateway.platforms.api_server.openapi")
        return VerbResult(data=openapi.format_openapi(__version__))
    home = locate_home(call.environ)
    install_fault_log(home.logs, build_lazy_redactor(call.environ, home))
    as_json = call.as_json
    run = importlib.import_module("hermes.gateway.run")
    door = run.ProgramDoor(args.host, args.port, lambda address: _print_address(address, as_json=as_json))
    options = SessionOptions(platform="gateway", reviews=True)
    return VerbResult(exit_code=int(run.serve(call.environ, options, _print_line, door)))


def _print_address(address: object, *, as_json: bool) -> None:
    """Print where programs find the server, and the key that was made for it."""
    plain = to_plain(address)
    lines = [to_json(plain).decode()]
    if not as_json:
        lines = [tr("Programs are served at {url} ({openapi}).", url=plain["url"], openapi=plain["openapi"])]
        key = plain["key"]
        lines.append(
            tr("The key of this run: {key}", key=key) if key else tr("The keys are those of platforms.api_server.")
        )
    with suppress(OSError):  # nobody looks
        print("\n".join(lines), flush=True)


def _print_line(line: str) -> None:
    """Print what the gateway reports, beside the address on standard output."""
    with suppress(OSError):  # nobody looks any more; the log has it
        print(escape_unseen_characters(localize(line)), file=sys.stderr, flush=True)
