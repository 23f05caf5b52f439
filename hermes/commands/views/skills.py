"""Format skills and their changes as lines, for the CLI verb and the slash command."""

import time

from hermes.admin.skills import escape_text
from hermes.i18n.messages import N_, localize, tr
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import to_one_line

_STATE_MARKS = {"ok": " ", "lacking": "-", "hidden": "-", "broken": "!"}


def format_skill(row: Plain) -> str:
    """Format a skill on one line; an error replaces its description."""
    about = f"({localize(str(row['why']))})" if row["why"] else str(row["description"])
    counts = {name: row[name] for name in ("used", "helped", "failed")}
    use = "  " + tr("used {used}, helped {helped}, failed {failed}", **counts) if row["used"] else ""
    waits = "  " + tr("[a change waits]") if row["pending"] else ""
    mark = _STATE_MARKS[str(row["state"])]
    return escape_text(f"{mark} {row['name']:<24} {row['tier']:<9} {to_one_line(about, 90)}{use}{waits}")


def format_skill_change(row: Plain) -> str:
    """Format a change on one line."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(row["made_at"]))))
    state = format_decision(row)
    who = tr("{what} {name}, from {author}", what=row["what"], name=row["name"], author=tr(str(row["author"])))
    return escape_text(f"{row['id']:>4}  {when}  {state}  {who}: {to_one_line(str(row['reason']), 100)}")


_STATE_NAMES = (
    N_("pending"),
    N_("applying"),
    N_("applied"),
    N_("rejected"),
    N_("undone"),
    N_("person"),
    N_("model"),
    N_("review"),
    N_("import"),
)
"""The names of the states of changes, and of their authors."""


def format_decision(row: Plain) -> str:
    """Describe the state of a change, and who decided on it."""
    state = tr(str(row["state"]))
    return tr("{state} by {who}", state=state, who=tr(str(row["decided_by"]))) if row["decided_by"] else state


def format_skill_diff(row: Plain, lines: list[str]) -> list[str]:
    """Format a change with all that a person needs to decide on it."""
    told = [format_skill_change(row)]
    told += [
        tr("Untrusted content was in the conversation: {text}", text=escape_text(one))
        for one in as_strings(row["sources"])
    ]
    waits = row["state"] == "pending"
    answer = [tr("hermes skills approve {id}, or reject {id}", id=row["id"])] if waits else []
    return [*told, "", *lines, *answer]


def format_decided_change(row: Plain) -> str:
    """Describe on one line what has become of a change."""
    what = f"{row['what']} {row['name']}"
    return escape_text(tr("Change {id} ({what}) is {state}.", id=row["id"], what=what, state=tr(str(row["state"]))))


def as_strings(value: object) -> list[str]:
    """Return a value that is a list of texts."""
    assert isinstance(value, list)
    return [str(one) for one in value]
