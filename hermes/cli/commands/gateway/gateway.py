"""`hermes gateway`: run the process that answers on chat platforms, and manage it as a service.

`hermes gateway logs`: show what the gateway did.

`hermes gateway status`: show the gateway's state, as it reports it, or from what it has left on disk.
"""

import argparse
import asyncio
import contextlib
import importlib
import sys
from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec
from msgspec import Struct

from hermes.admin.home_services import open_home_services
from hermes.admin.service import gateway_process
from hermes.admin.service.gateway_log import GatewayLogEntry, follow_log, read_log
from hermes.admin.service.service import GatewayService, ServicePlan, detect_service_kind, execute_plan, format_plan
from hermes.cli.fault_log import build_lazy_redactor, install_fault_log
from hermes.cli.output import confirm_action, print_error, print_json, report_failure
from hermes.cli.parser import CommandParser
from hermes.config.environment import copy_environment
from hermes.config.home import HermesHome, locate_home
from hermes.config.load import load_settings
from hermes.core.errors import HermesError
from hermes.i18n.formats import format_bytes, format_duration, format_time
from hermes.i18n.messages import localize, tr, tr_plural
from hermes.ipc import frames
from hermes.ipc.gateway_request import request_gateway
from hermes.sessions.options import SessionOptions
from hermes.util.text import escape_unseen_characters


class _AccountStatus(Struct, frozen=True):
    platform: str = ""
    state: str = ""
    why: str = ""


class _SessionCounts(Struct, frozen=True):
    live: int = 0
    working: int = 0


class _GatewayHealth(Struct, frozen=True):
    pid: int = 0
    up_seconds: float = 0.0
    accounts: dict[str, _AccountStatus] = {}
    wrong: list[str] = []
    sessions: _SessionCounts = _SessionCounts()
    deliveries: dict[str, int] = {}
    oldest_delivery_seconds: float = 0.0
    memory_bytes: int = 0
    usd: float = 0.0


def show_status(environ: Mapping[str, str], *, as_json: bool) -> int:
    """Print the status; the exit code is 1 when no gateway runs."""
    found = asyncio.run(_collect_status(environ))
    if as_json:
        print_json(found)
        return 0 if found["running"] else 1
    service = found["service"]
    health = msgspec.convert(found, _GatewayHealth)
    if found["running"]:
        print(tr("The gateway runs (pid {pid}) for {time}.", pid=health.pid, time=format_duration(health.up_seconds)))
        sessions = health.sessions
        print(tr("Sessions: {live} in memory, {working} at work.", live=sessions.live, working=sessions.working))
        print(
            tr(
                "Memory: {size}; spent since it began: ${usd:.4f}",
                size=format_bytes(health.memory_bytes),
                usd=health.usd,
            )
        )
    else:
        print(tr("No gateway runs. `hermes gateway start` starts it."))
    print(tr("Service: {what}", what=service))
    for name, one in health.accounts.items():
        state = f": {one.state}" if one.state else ""
        print(
            f"  {escape_unseen_characters(name)} ({escape_unseen_characters(one.platform)}){state}  "
            f"{escape_unseen_characters(localize(one.why))}".rstrip()
        )
    for line in health.wrong:
        print(f"  ! {escape_unseen_characters(localize(line))}")
    _print_deliveries(health)
    return 0 if found["running"] else 1


def _print_deliveries(health: _GatewayHealth) -> None:
    waiting = sum(health.deliveries.get(state, 0) for state in ("open", "pending", "attempting"))
    if waiting:
        old = format_duration(health.oldest_delivery_seconds)
        print(
            tr_plural(
                "{n} message is not delivered yet; it has waited for {time}.",
                "{n} messages are not delivered yet; the oldest has waited for {time}.",
                waiting,
                time=old,
            )
        )
    bad = {state: health.deliveries.get(state, 0) for state in ("failed", "uncertain")}
    if any(bad.values()):
        print(tr("Deliveries that failed: {failed}; in doubt: {uncertain}.", **bad))


async def _collect_status(environ: Mapping[str, str]) -> dict[str, object]:
    home = locate_home(environ)
    kind = detect_service_kind(environ)
    service = GatewayService(home, environ, kind, 0.0)
    about = {"service": f"{kind.value} ({service.name})" if service.installed else tr("not installed")}
    said = await request_gateway(home, frames.StatusRequestFrame())
    if isinstance(said, frames.StatusFrame):
        return {"running": True, **said.health, **about}
    pid = gateway_process.find_gateway_pid(home)
    if pid is not None:
        return {"running": True, "pid": pid, "wrong": [tr("It does not answer on its socket.")], **about}
    async with open_home_services(environ) as services:
        accounts = services.settings.platforms
        since = await services.store.outbox.get_oldest_pending_time()
        counts: dict[str, int] = {}
        for (_, state), number in (await services.store.outbox.count_by_state()).items():
            counts[state] = counts.get(state, 0) + number
        return {
            "running": False,
            "accounts": {name: {"platform": account.get("platform") or name} for name, account in accounts.items()},
            "deliveries": counts,
            "oldest_delivery_seconds": max(services.clock.now() - since, 0.0) if since is not None else 0.0,
            "arrivals": {"waiting": await services.store.chats.count_waiting_events()},
            **about,
        }


def show_logs(home: HermesHome, args: argparse.Namespace) -> int:
    """Print the newest lines, and with `-f` those that are written from then on."""
    found = read_log(home.logs, args.account, args.lines, args.level)
    for line in found:
        _print_line(line, as_json=args.as_json)
    if args.follow:
        sys.stdout.flush()
        asyncio.run(_follow_lines(home, args))
    elif not found and not args.as_json:
        print(tr("The gateway has written nothing like that."))
    return 0


async def _follow_lines(home: HermesHome, args: argparse.Namespace) -> None:
    async for line in follow_log(home.logs, args.account, args.level):
        _print_line(line, as_json=args.as_json)
        sys.stdout.flush()


def _print_line(line: GatewayLogEntry, *, as_json: bool) -> None:
    if as_json:
        print(msgspec.json.encode(line).decode())
        return
    where = line.lane.rstrip(":") or line.account
    seconds = f"{line.seconds:.2f} s" if line.seconds else ""
    parts = [format_time(line.time), line.level, line.event, where, line.session, line.outcome, seconds, line.text]
    print(escape_unseen_characters("  ".join(part for part in parts if part)))


_LEVELS = ("info", "warning", "error")


def run(arguments: list[str]) -> int:
    """Run the gateway, or control the one that runs."""
    args = _build_parser().parse_arguments(arguments)
    environ = copy_environment()
    verbs: dict[str, Callable[[argparse.Namespace, Mapping[str, str], HermesHome], int]] = {
        "run": _run_gateway,
        "install": _install_service,
        "uninstall": _install_service,
        "start": _start_gateway,
        "stop": _stop_gateway,
        "restart": _restart_gateway,
        "status": _show_status,
        "reload": _reload_gateway,
        "logs": _show_logs,
    }
    try:
        return verbs[args.verb or "run"](args, environ, locate_home(environ))
    except HermesError as error:
        return report_failure(error)


def _build_parser() -> CommandParser:
    made = CommandParser(
        prog="hermes gateway",
        description=tr(
            "Answer on the platforms that `platforms` in config.yaml names, and run jobs when they are due."
        ),
        epilog="example: hermes gateway install",
    )
    verbs = made.add_subparsers(dest="verb", metavar="VERB")
    verb_help = {
        "run": tr("run it here, until Ctrl-C (also without a verb)"),
        "install": tr("have systemd or launchd start it now and at every login, and again when it fails"),
        "uninstall": tr("end it, and have nobody start it any more"),
        "start": tr("start it in the background"),
        "stop": tr("end it: what runs comes to its end first"),
        "restart": tr("stop it and start it again"),
        "status": tr("whether it runs, its accounts, and what waits"),
        "reload": tr("reload its accounts, as SIGHUP does"),
        "logs": tr("what it did; never what anybody said"),
    }
    parsers = {verb: verbs.add_parser(verb, help=what) for verb, what in verb_help.items()}
    for verb in ("install", "uninstall"):
        parsers[verb].add_argument("--dry-run", action="store_true", help=tr("only show what would be done"))
        parsers[verb].add_argument("--yes", action="store_true", help=tr("do not ask"))
    parsers["status"].add_argument("--json", action="store_true", dest="as_json", help=tr("print JSON"))
    logs = parsers["logs"]
    logs.add_argument("-f", "--follow", action="store_true", help=tr("go on with what is written from now on"))
    logs.add_argument("-n", "--lines", type=int, default=50, metavar="N", help=tr("how many lines (default: 50)"))
    logs.add_argument("--account", default="", metavar="NAME", help=tr("those of one account"))
    logs.add_argument("--level", choices=_LEVELS, default="", help=tr("of this level and graver ones"))
    logs.add_argument("--json", action="store_true", dest="as_json", help=tr("one JSON object a line"))
    return made


def _run_gateway(_given: argparse.Namespace, environ: Mapping[str, str], home: HermesHome) -> int:
    install_fault_log(home.logs, build_lazy_redactor(environ, home))
    # Front-ends know nothing of each other: the gateway is started by its name.
    serve = importlib.import_module("hermes.gateway.run").serve
    return int(serve(environ, SessionOptions(platform="gateway", reviews=True), _print_gateway_line))


def _print_gateway_line(line: str) -> None:
    moment = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    with contextlib.suppress(OSError):  # nobody looks any more; the log has it
        print(f"{moment} {escape_unseen_characters(localize(line))}", flush=True)


def _load_service(environ: Mapping[str, str], home: HermesHome) -> GatewayService:
    seconds = load_settings(home).settings.gateway.drain_seconds
    return GatewayService(home, environ, detect_service_kind(environ), seconds)


def _install_service(args: argparse.Namespace, environ: Mapping[str, str], home: HermesHome) -> int:
    """Print the plan, and carry it out once the person agrees."""
    service = _load_service(environ, home)
    installs = args.verb == "install"
    plan = service.plan_install() if installs else service.plan_uninstall()
    _print_plan(plan)
    if args.dry_run:
        print(tr("Nothing was done."))
        return 0
    agrees = confirm_action(tr("Do this?"), yes=args.yes, what=tr("Installing") if installs else tr("Uninstalling"))
    if not agrees:
        return 2 if agrees is None else 1
    if installs:
        home.ensure_exists()
        gateway_process.stop_gateway(home, service.stop_seconds)
    execute_plan(plan, environ)
    print(tr("The gateway is installed and runs.") if installs else tr("The gateway is no service any more."))
    return 0


def _print_plan(plan: ServicePlan) -> None:
    print("\n".join(escape_unseen_characters(line) for line in format_plan(plan)))


def _start_gateway(_given: argparse.Namespace, environ: Mapping[str, str], home: HermesHome) -> int:
    service = _load_service(environ, home)
    home.ensure_exists()
    if service.installed:
        execute_plan(service.plan_start(), environ)
        pid = gateway_process.find_gateway_pid(home)
    else:
        pid = gateway_process.start_detached(home, service.spec, environ)
    print(tr("The gateway runs (pid {pid}).", pid=pid))
    return 0


def _stop_gateway(_given: argparse.Namespace, environ: Mapping[str, str], home: HermesHome) -> int:
    service = _load_service(environ, home)
    ran = gateway_process.find_gateway_pid(home) is not None
    if service.installed:
        execute_plan(service.plan_stop(), environ)
    gateway_process.stop_gateway(home, service.stop_seconds)
    print(tr("The gateway has ended.") if ran else tr("No gateway runs."))
    return 0


def _restart_gateway(args: argparse.Namespace, environ: Mapping[str, str], home: HermesHome) -> int:
    if gateway_process.find_gateway_pid(home) is not None:
        _stop_gateway(args, environ, home)
    return _start_gateway(args, environ, home)


def _reload_gateway(_given: argparse.Namespace, _environ: Mapping[str, str], home: HermesHome) -> int:
    from hermes.ipc import frames
    from hermes.ipc.gateway_request import request_gateway

    said = asyncio.run(request_gateway(home, frames.ReloadFrame()))
    if not isinstance(said, frames.DoneFrame):
        print_error(tr("No gateway runs."))
        return 1
    print(escape_unseen_characters(localize(said.said)))
    return 0


def _show_status(args: argparse.Namespace, environ: Mapping[str, str], _home: HermesHome) -> int:

    return show_status(environ, as_json=args.as_json)


def _show_logs(args: argparse.Namespace, _environ: Mapping[str, str], home: HermesHome) -> int:

    if args.lines < 0:
        print_error(tr("--lines must be from 0 on and below {most}", most="1,000,000"))
        return 2
    return show_logs(home, args)
