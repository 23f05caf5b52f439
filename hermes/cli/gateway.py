"""`hermes gateway`: the process that answers on chat platforms."""

import importlib
from datetime import datetime

from hermes.app.options import Options
from hermes.cli.arguments import Parser
from hermes.cli.log import log_to, redaction
from hermes.cli.report import failed
from hermes.config.environment import process_environment
from hermes.config.home import locate_home
from hermes.core.errors import HermesError
from hermes.util.say import translated
from hermes.util.text import escaped


def run(arguments: list[str]) -> int:
    """Run the gateway."""
    parser = Parser(
        prog="hermes gateway",
        description="Answer on the platforms that `platforms` in config.yaml names, and run jobs when they are due.",
        epilog="example: hermes gateway run",
    )
    parser.add_argument("action", nargs="?", choices=["run"], default="run")
    parser.read(arguments)
    environ = process_environment()
    home = locate_home(environ)
    log_to(home.logs, redaction(environ, home))
    # Front-ends know nothing of each other: the gateway is started by its name.
    serve = importlib.import_module("hermes.gateway.run").serve
    try:
        return int(serve(environ, Options(platform="gateway", reviews=True), _told))
    except HermesError as error:
        return failed(error)


def _told(line: str) -> None:
    moment = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    print(f"{moment} {escaped(translated(line))}", flush=True)
