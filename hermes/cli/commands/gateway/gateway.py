"""`hermes gateway`: the process that answers on chat platforms, and what is done with it as a service."""

import argparse
import asyncio
import contextlib
import importlib
from collections.abc import Callable, Mapping
from datetime import datetime

from hermes.admin.service import process
from hermes.admin.service.service import GatewayService, ServicePlan, detect_service_kind, execute_plan, format_plan
from hermes.cli.arguments import Parser
from hermes.cli.errors import complain, failed
from hermes.cli.log import log_to, redaction
from hermes.cli.output import agreed
from hermes.config.environment import process_environment
from hermes.config.home import Home, locate_home
from hermes.config.load import load_settings
from hermes.core.errors import HermesError
from hermes.i18n.messages import say, translated
from hermes.sessions.options import SessionOptions
from hermes.util.text import escaped

_LEVELS = ("info", "warning", "error")


def run(arguments: list[str]) -> int:
    """Run the gateway, or do something with the one that runs."""
    given = _parser().read(arguments)
    environ = process_environment()
    verbs: dict[str, Callable[[argparse.Namespace, Mapping[str, str], Home], int]] = {
        "run": _run,
        "install": _install,
        "uninstall": _install,
        "start": _start,
        "stop": _stop,
        "restart": _restart,
        "status": _status,
        "reload": _reload,
        "logs": _logs,
    }
    try:
        return verbs[given.verb or "run"](given, environ, locate_home(environ))
    except HermesError as error:
        return failed(error)


def _parser() -> Parser:
    made = Parser(
        prog="hermes gateway",
        description=say(
            "Answer on the platforms that `platforms` in config.yaml names, and run jobs when they are due."
        ),
        epilog="example: hermes gateway install",
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    told = {
        "run": say("run it here, until Ctrl-C (also without a verb)"),
        "install": say("have systemd or launchd start it now and at every login, and again when it fails"),
        "uninstall": say("end it, and have nobody start it any more"),
        "start": say("start it in the background"),
        "stop": say("end it: what runs comes to its end first"),
        "restart": say("end it and start it anew"),
        "status": say("whether it runs, its accounts, and what waits"),
        "reload": say("have it read its accounts anew, as SIGHUP does"),
        "logs": say("what it did; never what anybody said"),
    }
    parsers = {verb: verbs.add_parser(verb, help=what) for verb, what in told.items()}
    for verb in ("install", "uninstall"):
        parsers[verb].add_argument("--dry-run", action="store_true", help=say("only show what would be done"))
        parsers[verb].add_argument("--yes", action="store_true", help=say("do not ask"))
    parsers["status"].add_argument("--json", action="store_true", dest="as_json", help=say("print JSON"))
    logs = parsers["logs"]
    logs.add_argument("-f", "--follow", action="store_true", help=say("go on with what is written from now on"))
    logs.add_argument("-n", "--lines", type=int, default=50, metavar="N", help=say("how many lines (default: 50)"))
    logs.add_argument("--account", default="", metavar="NAME", help=say("those of one account"))
    logs.add_argument("--level", choices=_LEVELS, default="", help=say("of this level and graver ones"))
    logs.add_argument("--json", action="store_true", dest="as_json", help=say("one JSON object a line"))
    return made


def _run(_given: argparse.Namespace, environ: Mapping[str, str], home: Home) -> int:
    log_to(home.logs, redaction(environ, home))
    # Front-ends know nothing of each other: the gateway is started by its name.
    serve = importlib.import_module("hermes.gateway.run").serve
    return int(serve(environ, SessionOptions(platform="gateway", reviews=True), _told))


def _told(line: str) -> None:
    moment = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    with contextlib.suppress(OSError):  # nobody looks any more; the log has it
        print(f"{moment} {escaped(translated(line))}", flush=True)


def _service(environ: Mapping[str, str], home: Home) -> GatewayService:
    seconds = load_settings(home).settings.gateway.drain_seconds
    return GatewayService(home, environ, detect_service_kind(environ), seconds)


def _install(given: argparse.Namespace, environ: Mapping[str, str], home: Home) -> int:
    """Show what is to be done, and do it once the person agrees."""
    service = _service(environ, home)
    installs = given.verb == "install"
    plan = service.plan_install() if installs else service.plan_uninstall()
    _show(plan)
    if given.dry_run:
        print(say("Nothing was done."))
        return 0
    agrees = agreed(say("Do this?"), yes=given.yes, what=say("Installing") if installs else say("Uninstalling"))
    if not agrees:
        return 2 if agrees is None else 1
    if installs:
        home.ensure()
        process.stop_gateway(home, service.stop_seconds)
    execute_plan(plan, environ)
    print(say("The gateway is installed and runs.") if installs else say("The gateway is no service any more."))
    return 0


def _show(plan: ServicePlan) -> None:
    print("\n".join(escaped(line) for line in format_plan(plan)))


def _start(_given: argparse.Namespace, environ: Mapping[str, str], home: Home) -> int:
    service = _service(environ, home)
    home.ensure()
    if service.installed:
        execute_plan(service.plan_start(), environ)
        pid = process.find_gateway_pid(home)
    else:
        pid = process.start_detached(home, service.spec, environ)
    print(say("The gateway runs (pid {pid}).", pid=pid))
    return 0


def _stop(_given: argparse.Namespace, environ: Mapping[str, str], home: Home) -> int:
    service = _service(environ, home)
    ran = process.find_gateway_pid(home) is not None
    if service.installed:
        execute_plan(service.plan_stop(), environ)
    process.stop_gateway(home, service.stop_seconds)
    print(say("The gateway has ended.") if ran else say("No gateway runs."))
    return 0


def _restart(given: argparse.Namespace, environ: Mapping[str, str], home: Home) -> int:
    if process.find_gateway_pid(home) is not None:
        _stop(given, environ, home)
    return _start(given, environ, home)


def _reload(_given: argparse.Namespace, _environ: Mapping[str, str], home: Home) -> int:
    from hermes.ipc import frames
    from hermes.ipc.gateway_request import request_gateway

    said = asyncio.run(request_gateway(home, frames.ReloadFrame()))
    if not isinstance(said, frames.DoneFrame):
        complain(say("No gateway runs."))
        return 1
    print(escaped(translated(said.said)))
    return 0


def _status(given: argparse.Namespace, environ: Mapping[str, str], _home: Home) -> int:
    from hermes.cli.commands.gateway.status import show

    return show(environ, as_json=given.as_json)


def _logs(given: argparse.Namespace, _environ: Mapping[str, str], home: Home) -> int:
    from hermes.cli.commands.gateway.logs import show

    if given.lines < 0:
        complain(say("--lines must be from 0 on and below {most}", most="1,000,000"))
        return 2
    return show(home, given)
