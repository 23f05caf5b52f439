"""Skills and their changes as lines, for the verb and the slash command."""

import time

from hermes.admin.skills import as_shown
from hermes.i18n.messages import phrase, say, translated
from hermes.sessions.formats.openai_format import Plain
from hermes.util.text import one_line

_MARKS = {"ok": " ", "lacking": "-", "hidden": "-", "broken": "!"}


def skill_line(row: Plain) -> str:
    """A skill on one line; what is wrong with it stands where its description would."""
    about = f"({translated(str(row['why']))})" if row["why"] else str(row["description"])
    counts = {name: row[name] for name in ("used", "helped", "failed")}
    use = "  " + say("used {used}, helped {helped}, failed {failed}", **counts) if row["used"] else ""
    waits = "  " + say("[a change waits]") if row["pending"] else ""
    mark = _MARKS[str(row["state"])]
    return as_shown(f"{mark} {row['name']:<24} {row['tier']:<9} {one_line(about, 90)}{use}{waits}")


def change_line(row: Plain) -> str:
    """A change on one line."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(row["made_at"]))))
    state = decision(row)
    who = say("{what} {name}, from {author}", what=row["what"], name=row["name"], author=say(str(row["author"])))
    return as_shown(f"{row['id']:>4}  {when}  {state}  {who}: {one_line(str(row['reason']), 100)}")


_STATES = (
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
"""What the states of changes, and who makes them, are called."""


def decision(row: Plain) -> str:
    """How a change stands, and who has decided on it."""
    state = say(str(row["state"]))
    return say("{state} by {who}", state=state, who=say(str(row["decided_by"]))) if row["decided_by"] else state


def diff_text(row: Plain, lines: list[str]) -> list[str]:
    """A change with all that a person needs to decide on it."""
    told = [change_line(row)]
    told += [say("Text of strangers stood there: {text}", text=as_shown(one)) for one in strings(row["sources"])]
    waits = row["state"] == "pending"
    answer = [say("hermes skills approve {id}, or reject {id}", id=row["id"])] if waits else []
    return [*told, "", *lines, *answer]


def decided(row: Plain) -> str:
    """What has become of a change, on one line."""
    what = f"{row['what']} {row['name']}"
    return as_shown(say("Change {id} ({what}) is {state}.", id=row["id"], what=what, state=say(str(row["state"]))))


def strings(value: object) -> list[str]:
    """A value that is a list of texts."""
    assert isinstance(value, list)
    return [str(one) for one in value]
