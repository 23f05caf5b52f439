"""Builds the `cronjob` tool of a session."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack

from hermes.cron.tool import Desk, cronjob_tool
from hermes.runtime.actor import SessionActor
from hermes.sessions.features.cron_deps import CronDeps, build_jobs, is_gateway_running
from hermes.sessions.options import SessionOptions
from hermes.tools.tool import Tool


def build_session_cronjob(
    base: CronDeps, options: SessionOptions
) -> tuple[Tool, Callable[[SessionActor, AsyncExitStack], Awaitable[None]]]:
    """Build the tool for a session with these options; return it with the hook that attends the session."""
    live: list[SessionActor] = []

    async def attend_session(actor: SessionActor, stack: AsyncExitStack) -> None:
        live.append(actor)
        stack.callback(live.clear)

    tool_deps = Desk(
        jobs=build_jobs(base),
        store=base.store,
        origin=options.origin,
        limit=options.enabled_toolsets,
        attended=lambda: any(actor.approvals.can_ask for actor in live),
        runs=lambda: is_gateway_running(base.home),
    )
    return cronjob_tool(tool_deps), attend_session
