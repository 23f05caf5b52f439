"""What comes of sub-agents: the report that is stored, and its words for the parent's model."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec
from msgspec import structs

from hermes.core.messages import PROGRAM, Provenance, Source, TextPart
from hermes.core.outcomes import ExitReason
from hermes.core.sub_agents import REPORTS_HEADING, BackgroundEnd, SubAgentReport, SubAgentState
from hermes.core.usage import format_amount
from hermes.runtime.mailbox import InboundMessage
from hermes.store.store import Store
from hermes.store.sub_agents import StoredEnd, SubAgentRow
from hermes.tools.output import write_spill
from hermes.tools.session import Todo
from hermes.util.text import to_one_line, truncate_middle

_MAX_FILES = 40
_MAX_OPEN_ITEMS = 20
_OUT_OF_BUDGET = (ExitReason.BUDGET_EXHAUSTED, ExitReason.SPEND_LIMIT)


class PersonReports(Protocol):
    """Where the person of a process's sessions reads what comes of the sub-agents that they have asked for."""

    @property
    def asks_questions(self) -> bool:
        """Whether their models may ask the person something while they work."""
        ...

    async def show_report(self, end: BackgroundEnd) -> bool:
        """Show how one has ended, and its answer; return whether that is certain, so that it is not shown again."""
        ...


def choose_state(end: StoredEnd) -> SubAgentState:
    """Return the state that the end of a sub-agent's last turn means."""
    if end.reason.is_completed:
        return SubAgentState.DONE
    if end.reason in _OUT_OF_BUDGET:
        return SubAgentState.BUDGET
    if end.reason is ExitReason.INTERRUPTED:
        return SubAgentState.STOPPED
    return SubAgentState.PARTIAL if end.text.strip() else SubAgentState.FAILED


async def collect_report(store: Store, session_id: str, report: SubAgentReport) -> SubAgentReport:
    """Return the report with what the store knows of the session: changed files, open steps of its plan, and cost."""
    files: set[str] = set()
    for checkpoint in await store.checkpoints.list_of_session(session_id):
        files |= {one.path for one in await store.checkpoints.list_changes(checkpoint.id)}
    kept = await store.todo_lists.get(session_id)
    steps = msgspec.json.decode(kept, type=list[Todo]) if kept is not None else []
    left = [one.content for one in steps if one.status in ("pending", "in_progress")]
    return structs.replace(
        report,
        files=tuple(sorted(files)),
        open_items=(*report.open_items, *left),
        cost=await store.sub_agents.sum_cost(session_id),
    )


def format_reports(
    rows: Sequence[SubAgentRow], answers: Mapping[str, str], *, limit: int, spill_folder: Path, workspace: str
) -> str:
    """Return the reports as the parent's model reads them; of an answer over `limit` characters both ends, with a file
    that holds all of it.
    """
    return "\n\n".join(
        _format_report(row, answers.get(row.session_id, ""), limit, spill_folder, workspace) for row in rows
    )


def build_report_message(text: str, rows: Sequence[SubAgentRow]) -> InboundMessage:
    """Return the message that brings the reports of sub-agents in the background to their parent."""
    origin = find_origin(rows) or PROGRAM
    return InboundMessage(
        text="",
        quoted=(TextPart(text=f"{REPORTS_HEADING}\n\n{text}", provenance=origin),),
    )


def find_origin(rows: Sequence[SubAgentRow]) -> Provenance | None:
    """Return the provenance of what sub-agents report; None where nothing untrusted stood in their conversations.

    It is text that was made from other text, also where a file was its only source: the file itself may be trusted by
    the time that somebody looks, and what was made of it stays marked.
    """
    sources = dict.fromkeys(source for row in rows for source in row.report.sources)
    return Provenance(Source.OTHER, "\n".join(sources)) if sources else None


def _format_report(row: SubAgentRow, answer: str, limit: int, spill_folder: Path, workspace: str) -> str:
    report, name = row.report, to_one_line(row.task.name, 80)
    facts = [f"{report.steps} model calls"]
    if report.cost.nano:
        facts.append(format_amount(report.cost.nano))
    lines = [f"[sub-agent {row.number}: {row.state}] {name} ({', '.join(facts)}; session {row.session_id})"]
    if report.error:
        lines.append(f"Not done: {report.error}")
    if answer.strip():
        lines.append(_shorten_answer(answer.strip(), limit, spill_folder, row))
    elif row.state is not SubAgentState.DONE:
        lines.append("It has said nothing.")
    if report.files:
        files = [one.removeprefix(f"{report.folder or workspace}/") for one in report.files]
        lines.append(f"Files changed: {_format_list(files, _MAX_FILES)}")
    if report.open_items:
        lines.append(f"Left open: {_format_list(report.open_items, _MAX_OPEN_ITEMS, '; ')}")
    if report.branch:
        lines.append(f"Its work is in {report.folder}, on the branch {report.branch}: {report.work}.")
    return "\n".join(lines)


def _shorten_answer(answer: str, limit: int, spill_folder: Path, row: SubAgentRow) -> str:
    if len(answer) <= limit:
        return answer
    try:
        path = write_spill(answer, spill_folder, f"sub-agent-{row.number}")
    except OSError as error:
        return f"{truncate_middle(answer, limit)}\n[The rest could not be kept: {error}.]"
    return f"{truncate_middle(answer, limit)}\n[All {len(answer)} characters are in {path}: read_file shows them.]"


def _format_list(items: Sequence[str], most: int, separator: str = ", ") -> str:
    more = f"{separator}and {len(items) - most} more" if len(items) > most else ""
    return separator.join(to_one_line(one, 200) for one in items[:most]) + more
