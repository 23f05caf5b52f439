"""The tool `cronjob` as a session has it."""

from contextlib import AsyncExitStack

from hermes.app.cron import CronBase, gateway_running, jobs_of
from hermes.app.keeping import Kept, Shelf
from hermes.app.toolbox import Plan
from hermes.cron.tool import Desk, cronjob_tool
from hermes.runtime.actor import SessionActor
from hermes.util.clock import SystemClock


def session_jobs(plan: Plan, shelf: Shelf) -> Kept:
    """The tool for the session of `plan`."""
    live: list[SessionActor] = []

    async def attend(actor: SessionActor, _stack: AsyncExitStack) -> None:
        live.append(actor)

    base = CronBase(
        home=shelf.home,
        settings=shelf.settings,
        process=shelf.environ,
        store=shelf.store,
        redactor=shelf.redactor,
        clock=SystemClock(),
    )
    desk = Desk(
        jobs=jobs_of(base),
        store=shelf.store,
        origin=plan.origin,
        attended=lambda: any(actor.approvals.can_ask for actor in live),
        runs=lambda: gateway_running(shelf.home),
    )
    return Kept(tools=(cronjob_tool(desk),), attending=(attend,))
