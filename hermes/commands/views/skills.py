"""Format skills and their changes as lines, for the CLI verb and the slash command."""

import time

from hermes.admin.skills import escape_text
from hermes.i18n.messages import phrase, say, translated
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import one_line

_STATE_MARKS = {"ok": " ", "lacking": "-", "hidden": "-", "broken": "!"}


def format_skill(row: Plain) -> str:
    """Format a skill on one line; an error replaces its description."""
    about = f"({translated(str(row['why']))})" if row["why"] else str(row["description"])
    counts = {name: row[name] for name in ("used", "helped", "failed")}
    use = "  " + say("used {used}, helped {helped}, failed {failed}", **counts) if row["used"] else ""
    waits = "  " + say("[a change waits]") if row["pending"] else ""
    mark = _STATE_MARKS[str(row["state"])]
    return escape_text(f"{mark} {row['name']:<24} {row['tier']:<9} {one_line(about, 90)}{use}{waits}")


def format_skill_change(row: Plain) -> str:
    """Format a change on one line."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(row["made_at"]))))
    state = format_decision(row)
    who = say("{what} {name}, from {author}", what=row["what"], name=row["name"], author=say(str(row["author"])))
    return escape_text(f"{row['id']:>4}  {when}  {state}  {who}: {one_line(str(row['reason']), 100)}")


_STATE_NAMES = (
    phrase("pending"),
    phrase("applying"),
    phrase("applied"),
    phrase("rejected"),
    phrase("undone"),
    phrase("person"),
    phrase("model"),
    phrase("review"),
    phrase("import"),
)
"""The names of the states of changes, and of their authors."""


def format_decision(row: Plain) -> str:
    """Describe the state of a change, and who decided on it."""
    state = say(str(row["state"]))
    return say("{state} by {who}", state=state, who=say(str(row["decided_by"]))) if row["decided_by"] else state


def format_skill_diff(row: Plain, lines: list[str]) -> list[str]:
    """Format a change with all that a person needs to decide on it."""
    told = [format_skill_change(row)]
    told += [say("Text of strangers stood there: {text}", text=escape_text(one)) for one in as_strings(row["sources"])]
    waits = row["state"] == "pending"
    answer = [say("hermes skills approve {id}, or reject {id}", id=row["id"])] if waits else []
    return [*told, "", *lines, *answer]


def format_decided_change(row: Plain) -> str:
    """Describe on one line what has become of a change."""
    what = f"{row['what']} {row['name']}"
    return escape_text(say("Change {id} ({what}) is {state}.", id=row["id"], what=what, state=say(str(row["state"]))))


def as_strings(value: object) -> list[str]:
    """Return a value that is a list of texts."""
    assert isinstance(value, list)
    return [str(one) for one in value]
