"""The reports of sub-agents on their way: to the parent, which they wake, to the person, and to memories."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermes.core.ids import new_queued_message_id
from hermes.core.sub_agents import BackgroundEnd
from hermes.runtime.mailbox import InboundMessage
from hermes.sessions.sub_agents.reports import build_report_message, format_reports
from hermes.sessions.sub_agents.run import SubAgentHost, SubAgentRun
from hermes.store.sub_agents import ReportDelivery, SubAgentRow

if TYPE_CHECKING:
    from hermes.sessions.session_builder import LiveSession


class ReportSender:
    """Sends the reports of the sub-agents of one live session where they belong."""

    def __init__(self, host: SubAgentHost, parent: "LiveSession") -> None:
        self._host = host
        self._parent = parent
        self._store = host.services.store.sub_agents
        self._held: list[tuple[str, InboundMessage]] | None = None
        """While reports are held, those that are in the inbox already."""

    def hold(self) -> None:
        """Leave reports in the inbox for now: nobody follows the session yet."""
        self._held = []

    def release(self) -> None:
        """Bring the session the reports that were held."""
        held, self._held = self._held, None
        for letter_id, inbound in held or ():
            self._parent.actor.forward(letter_id, inbound, joins=True)

    async def send(self, rows: Sequence[SubAgentRow], *, wakes: bool) -> None:
        """Put the reports of a call into the parent's inbox, which wakes it, or show them to the person, once. Without
        `wakes` those for the inbox are dropped.
        """
        names = [row.session_id for row in rows]
        match rows[0].delivery:
            case ReportDelivery.INBOX if wakes:
                await self._wake_parent(rows, names)
            case ReportDelivery.INBOX:
                await self._store.mark_delivered(names)
            case ReportDelivery.PERSON:
                if await self._show_to_person(rows[0]):
                    await self._store.mark_delivered(names)
            case _:
                pass

    async def tell_memories(self, run: SubAgentRun) -> None:
        """Tell the memory of the parent what was delegated, and what came of it."""
        if not self._parent.features.delegated:
            return
        row = await self._store.get(run.row.session_id)
        answer = "" if row is None else await self._store.read_answer(row.report.turn_id)
        for tell in self._parent.features.delegated:
            await tell(run.row.task.goal, answer)

    async def format(self, rows: Sequence[SubAgentRow]) -> str:
        """Return the reports of sub-agents in words for the parent's model."""
        context = self._parent.tools.context
        answers = {row.session_id: await self._store.read_answer(row.report.turn_id) for row in rows}
        return format_reports(
            rows,
            answers,
            limit=self._host.services.settings.delegation.max_summary_chars,
            spill_folder=context.spill_folder,
            workspace=context.places.workspace,
        )

    async def _wake_parent(self, rows: Sequence[SubAgentRow], names: Sequence[str]) -> None:
        """Put reports into the parent's inbox. The answer to them goes to the parent's chat, where it has one."""
        parent = self._parent
        inbound, letter_id = build_report_message(await self.format(rows), rows), new_queued_message_id()
        body, to_chat = inbound.encode(), bool(parent.options.origin)
        if not await self._store.deliver(parent.actor.session_id, letter_id, body, names, to_chat=to_chat):
            return
        if self._held is not None:
            self._held.append((letter_id, inbound))
        else:
            parent.actor.forward(letter_id, inbound, joins=True)

    async def _show_to_person(self, row: SubAgentRow) -> bool:
        """Show the person what came of a background session; return whether they have it for certain."""
        reports = self._host.person_reports
        if reports is None:
            return False
        return await reports.show_report(
            BackgroundEnd(
                session_id=row.session_id,
                parent_id=row.parent_id,
                number=row.number,
                name=row.task.name,
                state=row.state,
                answer=await self._store.read_answer(row.report.turn_id),
                report=row.report,
            )
        )
