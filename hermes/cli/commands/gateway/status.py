"""`hermes gateway status`: how the gateway stands, told by it, or by what it has left on disk."""

import asyncio
from collections.abc import Mapping

import msgspec
from msgspec import Struct

from hermes.admin.send import open_home_services
from hermes.admin.service import process
from hermes.admin.service.service import GatewayService, detect_service_kind
from hermes.cli.output import print_json, size
from hermes.config.home import locate_home
from hermes.i18n.formats import span
from hermes.i18n.messages import say, say_many, translated
from hermes.ipc import frames
from hermes.ipc.gateway_request import request_gateway
from hermes.util.text import escaped


class _Account(Struct, frozen=True):
    platform: str = ""
    state: str = ""
    why: str = ""


class _Sessions(Struct, frozen=True):
    live: int = 0
    working: int = 0


class _Health(Struct, frozen=True):
    pid: int = 0
    up_seconds: float = 0.0
    accounts: dict[str, _Account] = {}
    wrong: list[str] = []
    sessions: _Sessions = _Sessions()
    deliveries: dict[str, int] = {}
    oldest_delivery_seconds: float = 0.0
    memory_bytes: int = 0
    usd: float = 0.0


def show(environ: Mapping[str, str], *, as_json: bool) -> int:
    """Print it; the exit code is 1 when no gateway runs."""
    found = asyncio.run(_found(environ))
    if as_json:
        print_json(found)
        return 0 if found["running"] else 1
    service = found["service"]
    health = msgspec.convert(found, _Health)
    if found["running"]:
        print(say("The gateway runs (pid {pid}) for {time}.", pid=health.pid, time=span(health.up_seconds)))
        sessions = health.sessions
        print(say("Sessions: {live} in memory, {working} at work.", live=sessions.live, working=sessions.working))
        print(say("Memory: {size}; spent since it began: ${usd:.4f}", size=size(health.memory_bytes), usd=health.usd))
    else:
        print(say("No gateway runs. `hermes gateway start` starts it."))
    print(say("Service: {what}", what=service))
    for name, one in health.accounts.items():
        state = f": {one.state}" if one.state else ""
        print(f"  {escaped(name)} ({escaped(one.platform)}){state}  {escaped(translated(one.why))}".rstrip())
    for line in health.wrong:
        print(f"  ! {escaped(translated(line))}")
    _owing(health)
    return 0 if found["running"] else 1


def _owing(health: _Health) -> None:
    owed = sum(health.deliveries.get(state, 0) for state in ("open", "pending", "attempting"))
    if owed:
        old = span(health.oldest_delivery_seconds)
        print(say_many("{n} message is owed for {time}.", "{n} messages are owed, one for {time}.", owed, time=old))
    bad = {state: health.deliveries.get(state, 0) for state in ("failed", "uncertain")}
    if any(bad.values()):
        print(say("Deliveries that failed: {failed}; in doubt: {uncertain}.", **bad))


async def _found(environ: Mapping[str, str]) -> dict[str, object]:
    home = locate_home(environ)
    kind = detect_service_kind(environ)
    service = GatewayService(home, environ, kind, 0.0)
    about = {"service": f"{kind.value} ({service.name})" if service.installed else say("not installed")}
    said = await request_gateway(home, frames.StatusRequestFrame())
    if isinstance(said, frames.StatusFrame):
        return {"running": True, **said.health, **about}
    pid = process.find_gateway_pid(home)
    if pid is not None:
        return {"running": True, "pid": pid, "wrong": [say("It does not answer on its socket.")], **about}
    async with open_home_services(environ) as desk:
        accounts = desk.settings.platforms
        since = await desk.store.chats.owing_since()
        counts: dict[str, int] = {}
        for (_, state), number in (await desk.store.chats.delivery_counts()).items():
            counts[state] = counts.get(state, 0) + number
        return {
            "running": False,
            "accounts": {name: {"platform": given.get("platform") or name} for name, given in accounts.items()},
            "deliveries": counts,
            "oldest_delivery_seconds": max(desk.clock.now() - since, 0.0) if since is not None else 0.0,
            "arrivals": {"waiting": await desk.store.chats.arrivals_waiting()},
            **about,
        }
