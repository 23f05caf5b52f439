"""The tool `cronjob` as a session has it."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from hermes.cron.tool import Desk, cronjob_tool
from hermes.runtime.actor import SessionActor
from hermes.sessions.features.cron_deps import CronBase, gateway_running, jobs_of
from hermes.sessions.options import Options
from hermes.tools.tool import Tool


def session_jobs(
    base: CronBase, options: Options
) -> tuple[Tool, Callable[[SessionActor, AsyncExitStack], Awaitable[None]]]:
    """The tool for a session with these options, and who must attend the session."""
    live: list[SessionActor] = []

    async def attend(actor: SessionActor, stack: AsyncExitStack) -> None:
        live.append(actor)
        stack.callback(live.clear)

    desk = Desk(
        jobs=jobs_of(base),
        store=base.store,
        origin=options.origin,
        limit=options.enabled_toolsets,
        attended=lambda: any(actor.approvals.can_ask for actor in live),
        runs=lambda: gateway_running(base.home),
    )
    return cronjob_tool(desk), attend
