"""Format memories and their changes as lines, for the CLI verb and the slash command."""

import time

from hermes.admin.memory import MemoryAdmin, escape_text
from hermes.commands.views.skills import format_decision
from hermes.i18n.messages import N_, localize, tr
from hermes.sessions.formats.openai_format import Plain

NO_PENDING_CHANGE = N_("No change waits.")


async def decide_change(admin: MemoryAdmin, verb: str, number: int) -> str:
    """Approve, reject or undo a change, and return one line about its new state."""
    answers = {"approve": admin.approve_change, "reject": admin.reject_change, "undo": admin.undo_change}
    row = await answers[verb](number)
    state = tr(str(row["state"]))
    return escape_text(tr("Change {id} ({what}) is {state}.", id=row["id"], what=row["what"], state=state))


def format_memory_file(row: Plain) -> list[str]:
    """Format a memory file with its entries."""
    if row["wrong"]:
        return [escape_text(localize(str(row["wrong"])))]
    entries = row["entries"]
    assert isinstance(entries, list)
    head = tr("{file}  {usage} characters", file=row["file"], usage=row["usage"])
    head += "" if entries else "  " + tr("(empty)")
    return [escape_text(head), *(line for entry in entries for line in _entry_lines("- ", str(entry)))]


def format_memory_change(row: Plain) -> list[str]:
    """Format a change with all that a person needs to decide on it."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(row["made_at"]))))
    reason = f": {row['reason']}" if row["reason"] else ""
    who = tr("{name}, from {author}", name=row["name"], author=tr(str(row["author"])))
    lines = [escape_text(f"{row['id']:>4}  {when}  {format_decision(row)}  {who}{reason}")]
    sources = row["sources"]
    assert isinstance(sources, list)
    lines += [
        "      " + tr("untrusted content was in the conversation: {text}", text=escape_text(str(source)))
        for source in sources
    ]
    for sign, text in (("- ", row["before"]), ("+ ", row["after"])):
        lines += [f"      {line}" for line in _entry_lines(sign, str(text))] if text is not None else []
    if row["state"] == "pending":
        lines.append("      " + tr("hermes memory approve {id}, or reject {id}", id=row["id"]))
    return lines


def _entry_lines(sign: str, text: str) -> list[str]:
    """Format an entry behind its sign, with invisible and control characters escaped."""
    first, *more = text.split("\n")
    return [sign + escape_text(first), *(f"  {escape_text(line)}" for line in more)]
