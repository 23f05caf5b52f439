"""`hermes gateway`: run the process that answers on chat platforms, and manage it as a service.

`hermes gateway logs`: show what the gateway did.

`hermes gateway status`: show the gateway's state, as it reports it, or from what it has left on disk.
"""

import contextlib
import importlib
import importlib.util
import os
import shlex
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from hermes.admin.home_services import open_home_services
from hermes.admin.service import gateway_process
from hermes.admin.service.gateway_log import GatewayLogEntry, follow_log, read_log
from hermes.admin.service.service import (
    GatewayService,
    ServiceKind,
    ServicePlan,
    detect_service_kind,
    execute_plan,
    format_plan,
)
from hermes.cli.fault_log import build_lazy_redactor, install_fault_log
from hermes.commands.verb import JSON_OPTION, YES_OPTION, Verb, VerbCall, VerbResult, argument
from hermes.config.home import locate_home
from hermes.config.load import load_settings
from hermes.core.encoding import Plain
from hermes.core.errors import ConfigError, UsageError
from hermes.i18n.formats import format_bytes, format_duration, format_time
from hermes.i18n.messages import N_, localize, tr, tr_plural
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


def _format_status(found: Plain) -> list[str]:
    health, lines = msgspec.convert(found, _GatewayHealth), []
    if found["running"]:
        up, size, sessions = format_duration(health.up_seconds), format_bytes(health.memory_bytes), health.sessions
        lines += [
            tr("The gateway runs (pid {pid}) for {time}.", pid=health.pid, time=up),
            tr("Sessions: {live} in memory, {working} at work.", live=sessions.live, working=sessions.working),
            tr("Memory: {size}; spent since it began: ${usd:.4f}", size=size, usd=health.usd),
        ]
    else:
        lines.append(tr("No gateway runs. `hermes gateway start` starts it."))
    lines.append(tr("Service: {what}", what=found["service"]))
    for name, one in health.accounts.items():
        state = f": {one.state}" if one.state else ""
        about = f"  {escape_unseen_characters(name)} ({escape_unseen_characters(one.platform)}){state}  "
        lines.append((about + escape_unseen_characters(localize(one.why))).rstrip())
    lines += [f"  ! {escape_unseen_characters(localize(line))}" for line in health.wrong]
    return lines + _format_deliveries(health)


def _format_deliveries(health: _GatewayHealth) -> list[str]:
    lines = []
    waiting = sum(health.deliveries.get(state, 0) for state in ("open", "pending", "attempting"))
    if waiting:
        said = tr_plural(
            "{n} message is not delivered yet; it has waited for {time}.",
            "{n} messages are not delivered yet; the oldest has waited for {time}.",
            waiting,
            time=format_duration(health.oldest_delivery_seconds),
        )
        lines.append(said)
    bad = {state: health.deliveries.get(state, 0) for state in ("failed", "uncertain")}
    if any(bad.values()):
        lines.append(tr("Deliveries that failed: {failed}; in doubt: {uncertain}.", **bad))
    return lines


async def _collect_status(environ: Mapping[str, str]) -> Plain:
    home = locate_home(environ)
    kind = detect_service_kind(environ)
    service = GatewayService(home, environ, kind, 0.0)
    about = {"service": f"{kind.value} ({service.name})" if service.installed else tr("not installed")}
    if service.is_machine_service:
        about = {"service": tr("of the machine: systemd ({name})", name=service.name)}
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


def _format_entry(entry: GatewayLogEntry) -> str:
    where = entry.lane.rstrip(":") or entry.account
    seconds = f"{entry.seconds:.2f} s" if entry.seconds else ""
    parts = [
        format_time(entry.time),
        entry.level,
        entry.event,
        where,
        entry.session,
        entry.outcome,
        seconds,
        entry.text,
    ]
    return escape_unseen_characters("  ".join(part for part in parts if part))


_LEVELS = ("info", "warning", "error")


GATEWAY = Verb(
    "gateway",
    description="Answer on the platforms that `platforms` in config.yaml names, and run jobs when they are due.",
    example="hermes gateway install",
)
_INSTALL_OPTIONS = (argument("--dry-run", action="store_true", help="only show what would be done"), YES_OPTION)


def require_gateway_packages() -> None:
    """Raise ConfigError where Hermes was installed without what a gateway needs."""
    if importlib.util.find_spec("aiohttp") is None:
        from hermes.admin.update import describe_extra_command

        raise ConfigError(
            N_("The gateway needs packages that are not installed."),
            N_("Install them: {command}", command=describe_extra_command("gateway")),
        )


@GATEWAY.action("run", "run it here, until Ctrl-C (also without a verb)")
def run_gateway(call: VerbCall) -> VerbResult:
    """Run the gateway in this process."""
    require_gateway_packages()
    home = locate_home(call.environ)
    install_fault_log(home.logs, build_lazy_redactor(call.environ, home))
    # Front-ends know nothing of each other: the gateway is started by its name.
    serve = importlib.import_module("hermes.gateway.run").serve
    options = SessionOptions(platform="gateway", reviews=True)
    return VerbResult(exit_code=int(serve(call.environ, options, _print_gateway_line)))


@GATEWAY.action(
    "install",
    ("install the service: systemd or launchd starts it now, at every login, and again when it fails"),
    *_INSTALL_OPTIONS,
    argument("--user", action="store_true", exclusive="manager", help="for your own systemd (the default)"),
    argument("--system", action="store_true", exclusive="manager", help="for the machine's systemd, as this user"),
)
def install_service(call: VerbCall) -> VerbResult:
    """Show what installs the service, and do it after a yes.

    Without a systemd that can be reached, `--dry-run` shows both units.
    """
    service, home = _load_service(call), locate_home(call.environ)
    if service.installed and service.is_machine_service != call.args.system and not call.args.dry_run:
        raise UsageError(
            N_("The gateway is a service already: {file}.", file=service.file),
            N_("`hermes gateway uninstall` removes it."),
        )
    if call.args.system:
        return _show_system_plan(call, service)
    if call.args.dry_run and service.kind is ServiceKind.PLAIN:
        return _show_both_plans(call, service)
    plan = service.plan_install()
    if (done := _agree_to_plan(call, plan, tr("Installing"))) is not None:
        return done
    require_gateway_packages()
    home.ensure_exists()
    gateway_process.stop_gateway(home, service.stop_seconds)
    losses = execute_plan(plan, call.environ)
    return VerbResult(lines=[tr("The gateway is installed and runs.")], notices=[localize(one) for one in losses])


def _show_system_plan(call: VerbCall, service: GatewayService) -> VerbResult:
    """Show what installs the machine's service, and do it after a yes where root asks for it."""
    home, user = locate_home(call.environ), call.environ.get("SUDO_USER") or service.owner.name
    if user == "root":
        call.show([tr("! The gateway should not run as root: use sudo from the account that it is to run as.")])
    elif os.getuid() == 0:
        _require_owner(home.root, service.owner.name, user)
    plan = service.plan_system_install()
    if (done := _agree_to_plan(call, plan, tr("Installing"))) is not None:
        return done
    _require_root(plan, N_("Add --dry-run, write the file shown as root, and run the commands shown."))
    require_gateway_packages()
    if service.owner.number == os.getuid():
        home.ensure_exists()  # in that of another account root does nothing itself: it would follow what stands there
    gateway_process.stop_gateway(home, service.stop_seconds)
    execute_plan(plan, call.environ)
    return VerbResult(lines=[tr("The gateway is installed and runs.")])


def _require_root(plan: ServicePlan, hint: str = "") -> None:
    """Raise UsageError where only root can carry a plan out; the hint says its commands where no other one is given."""
    if not plan.needs_root or os.getuid() == 0:
        return
    commands = "; ".join(shlex.join(("sudo", one[0].lstrip("-"), *one[1:])) for one in plan.commands)
    raise UsageError(N_("Only root can do that: the gateway is a service of the machine."), hint or commands)


def _require_owner(home: Path, owner: str, user: str) -> None:
    """Raise UsageError where root would install a home that is not the user's, such as its own."""
    if not home.is_dir() or owner != user:
        own = shlex.quote(os.path.expanduser(f"~{user}/.hermes"))
        raise UsageError(
            N_("{home} does not belong to {user}.", home=home, user=user),
            N_("Name the home: sudo HERMES_HOME={home} hermes gateway install --system", home=own),
        )


def _show_both_plans(call: VerbCall, service: GatewayService) -> VerbResult:
    user = service.owner.name
    runtime = call.environ.get("XDG_RUNTIME_DIR") or tr("not set")
    said = [tr("No systemd of yours can be reached from here (XDG_RUNTIME_DIR: {path}).", path=runtime)]
    if not call.args.user:
        said += ["", tr("Either a service of the machine, written and started by root:"), ""]
        said += format_plan(service.plan_system_install())
        said += ["", tr("Or a service of your own:")]
    said += [
        "",
        tr(
            "Your systemd runs while you are logged in; root has it run always: loginctl enable-linger {user}",
            user=user,
        ),
        tr(
            "After `su` or `sudo` it is found by: export XDG_RUNTIME_DIR=/run/user/{number}; in a container there is "
            "none: run `hermes gateway run` there.",
            number=os.getuid(),
        ),
        "",
    ]
    said += format_plan(service.plan_install(shown_only=True))
    call.show([escape_unseen_characters(line) for line in said])
    return VerbResult(lines=[tr("Nothing was done.")])


@GATEWAY.action("uninstall", "stop it and remove the service", *_INSTALL_OPTIONS)
def uninstall_service(call: VerbCall) -> VerbResult:
    """Show what removes the service, and do it after a yes."""
    plan = _load_service(call).plan_uninstall()
    if (done := _agree_to_plan(call, plan, tr("Uninstalling"))) is not None:
        return done
    _require_root(plan)
    execute_plan(plan, call.environ)
    return VerbResult(lines=[tr("The gateway is no longer installed as a service.")])


def _agree_to_plan(call: VerbCall, plan: ServicePlan, what: str) -> VerbResult | None:
    """Show the plan and ask for a yes; return the result where the plan was only asked for."""
    call.show([escape_unseen_characters(line) for line in format_plan(plan)])
    if call.args.dry_run:
        return VerbResult(lines=[tr("Nothing was done.")])
    call.require_yes_now(tr("Do this?"), what=what)
    return None


@GATEWAY.action("start", "start it in the background")
def start_gateway(call: VerbCall) -> VerbResult:
    """Start the gateway in the background."""
    require_gateway_packages()
    service, home = _load_service(call), locate_home(call.environ)
    home.ensure_exists()
    if service.installed:
        plan = service.plan_start()
        _require_root(plan)
        execute_plan(plan, call.environ)
        pid = gateway_process.find_gateway_pid(home)
    else:
        pid = gateway_process.start_detached(home, service.spec, call.environ)
    return VerbResult(lines=[tr("The gateway runs (pid {pid}).", pid=pid)])


@GATEWAY.action("stop", "stop it, after running turns have ended")
def stop_gateway(call: VerbCall) -> VerbResult:
    """End the gateway."""
    service, home = _load_service(call), locate_home(call.environ)
    ran = gateway_process.find_gateway_pid(home) is not None
    if service.installed:
        plan = service.plan_stop()
        _require_root(plan)
        execute_plan(plan, call.environ)
    gateway_process.stop_gateway(home, service.stop_seconds)
    return VerbResult(lines=[tr("The gateway has ended.") if ran else tr("No gateway runs.")])


@GATEWAY.action("restart", "stop it and start it again")
def restart_gateway(call: VerbCall) -> VerbResult:
    """End the gateway and start it again."""
    if gateway_process.find_gateway_pid(locate_home(call.environ)) is not None:
        call.show(stop_gateway(call).lines)
    return start_gateway(call)


@GATEWAY.action("status", "whether it runs, its accounts, and what waits", JSON_OPTION)
async def show_status(call: VerbCall) -> VerbResult:
    """Show the gateway's state; the exit code is 1 when none runs."""
    found = await _collect_status(call.environ)
    return VerbResult(found, _format_status(found), exit_code=0 if found["running"] else 1)


@GATEWAY.action("reload", "reload its settings, as SIGHUP does")
async def reload_gateway(call: VerbCall) -> VerbResult:
    """Reload the settings of the gateway. The exit code is 78 where some of them cannot be used."""
    said = await request_gateway(locate_home(call.environ), frames.ReloadFrame())
    if not isinstance(said, frames.DoneFrame):
        return VerbResult(notices=[tr("No gateway runs.")], exit_code=1)
    notices = [escape_unseen_characters(localize(line)) for line in said.notices]
    return VerbResult(lines=[escape_unseen_characters(localize(said.said))], notices=notices, exit_code=said.code)


@GATEWAY.action(
    "logs",
    "what it did, never the text of messages",
    argument("-f", "--follow", action="store_true", help="follow new entries"),
    argument("-n", "--lines", type=int, default=50, metavar="N", help="how many lines (default: 50)"),
    argument("--account", default="", metavar="NAME", help="those of one account"),
    argument("--level", choices=_LEVELS, default="", help="this level and more severe ones"),
    argument("--json", action="store_true", dest="as_json", help="one JSON object a line"),
)
async def show_logs(call: VerbCall) -> VerbResult:
    """Show the newest lines of the gateway's log, and where that is asked for those that follow."""
    args, folder = call.args, locate_home(call.environ).logs
    if args.lines < 0:
        raise UsageError(tr("--lines must be from 0 on and below {most}", most="1,000,000"))
    found = read_log(folder, args.account, args.lines, args.level)
    for entry in found:
        call.write_row(entry, [_format_entry(entry)])
    if args.follow:
        async for entry in follow_log(folder, args.account, args.level):
            call.write_row(entry, [_format_entry(entry)])
    said = [] if found or args.follow or call.as_json else [tr("The gateway has written nothing like that.")]
    return VerbResult(lines=said)


def _print_gateway_line(line: str) -> None:
    moment = datetime.now().astimezone().isoformat(sep=" ", timespec="seconds")
    with contextlib.suppress(OSError):  # nobody looks any more; the log has it
        print(f"{moment} {escape_unseen_characters(localize(line))}", flush=True)


def _load_service(call: VerbCall) -> GatewayService:
    home = locate_home(call.environ)
    seconds = load_settings(home).settings.gateway.drain_seconds
    return GatewayService(home, call.environ, detect_service_kind(call.environ), seconds)
