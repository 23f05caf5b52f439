"""`hermes gateway status`: show the gateway's state, as it reports it, or from what it has left on disk."""

import asyncio
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from hermes.admin.home_services import open_home_services
from hermes.admin.service import gateway_process
from hermes.admin.service.service import GatewayService, detect_service_kind
from hermes.cli.output import format_bytes, print_json
from hermes.config.home import locate_home
from hermes.i18n.formats import format_duration
from hermes.i18n.messages import localize, tr, tr_plural
from hermes.ipc import frames
from hermes.ipc.gateway_request import request_gateway
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
        print(tr_plural("{n} message is owed for {time}.", "{n} messages are owed, one for {time}.", waiting, time=old))
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
        since = await services.store.chats.get_oldest_pending_time()
        counts: dict[str, int] = {}
        for (_, state), number in (await services.store.chats.count_deliveries()).items():
            counts[state] = counts.get(state, 0) + number
        return {
            "running": False,
            "accounts": {name: {"platform": account.get("platform") or name} for name, account in accounts.items()},
            "deliveries": counts,
            "oldest_delivery_seconds": max(services.clock.now() - since, 0.0) if since is not None else 0.0,
            "arrivals": {"waiting": await services.store.chats.count_waiting_events()},
            **about,
        }
