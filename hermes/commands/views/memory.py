"""Format memories and their changes as lines, for the CLI verb and the slash command."""

import time

from hermes.admin.memory import MemoryAdmin, as_shown
from hermes.commands.views.skills import format_decision
from hermes.i18n.messages import phrase, say, translated
from hermes.sessions.formats.openai_format import Plain

NO_PENDING_CHANGE = phrase("No change waits.")


async def decide_change(admin: MemoryAdmin, verb: str, number: int) -> str:
    """Approve, reject or undo a change, and return one line about its new state."""
    answers = {"approve": admin.approve_change, "reject": admin.reject_change, "undo": admin.undo_change}
    row = await answers[verb](number)
    state = say(str(row["state"]))
    return as_shown(say("Change {id} ({what}) is {state}.", id=row["id"], what=row["what"], state=state))


def format_memory_file(row: Plain) -> list[str]:
    """Format a memory file with its entries."""
    if row["wrong"]:
        return [as_shown(translated(str(row["wrong"])))]
    entries = row["entries"]
    assert isinstance(entries, list)
    head = say("{file}  {usage} characters", file=row["file"], usage=row["usage"])
    head += "" if entries else "  " + say("(empty)")
    return [as_shown(head), *(line for entry in entries for line in _entry_lines("- ", str(entry)))]


def format_memory_change(row: Plain) -> list[str]:
    """Format a change with all that a person needs to decide on it."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(row["made_at"]))))
    reason = f": {row['reason']}" if row["reason"] else ""
    who = say("{name}, from {author}", name=row["name"], author=say(str(row["author"])))
    lines = [as_shown(f"{row['id']:>4}  {when}  {format_decision(row)}  {who}{reason}")]
    sources = row["sources"]
    assert isinstance(sources, list)
    lines += ["      " + say("strangers' words stood there: {text}", text=as_shown(str(source))) for source in sources]
    for sign, text in (("- ", row["before"]), ("+ ", row["after"])):
        lines += [f"      {line}" for line in _entry_lines(sign, str(text))] if text is not None else []
    if row["state"] == "pending":
        lines.append("      " + say("hermes memory approve {id}, or reject {id}", id=row["id"]))
    return lines


def _entry_lines(sign: str, text: str) -> list[str]:
    """Format an entry behind its sign, with invisible and control characters escaped."""
    first, *more = text.split("\n")
    return [sign + as_shown(first), *(f"  {as_shown(line)}" for line in more)]
