"""Skills and their changes as lines, for the verb and the slash command."""

import time

from hermes.app.openai_form import Plain
from hermes.app.skills import as_shown
from hermes.util.text import one_line

_MARKS = {"ok": " ", "lacking": "-", "hidden": "-", "broken": "!"}


def skill_line(row: Plain) -> str:
    """A skill on one line; what is wrong with it stands where its description would."""
    about = f"({row['why']})" if row["why"] else str(row["description"])
    use = f"  used {row['used']}, helped {row['helped']}, failed {row['failed']}" if row["used"] else ""
    waits = "  [a change waits]" if row["pending"] else ""
    mark = _MARKS[str(row["state"])]
    return as_shown(f"{mark} {row['name']:<24} {row['tier']:<9} {one_line(about, 90)}{use}{waits}")


def change_line(row: Plain) -> str:
    """A change on one line."""
    when = time.strftime("%Y-%m-%d %H:%M", time.localtime(float(str(row["made_at"]))))
    by = f" by {row['decided_by']}" if row["decided_by"] else ""
    who = f"{row['what']} {row['name']}, from {row['author']}"
    return as_shown(f"{row['id']:>4}  {when}  {row['state']}{by}  {who}: {one_line(str(row['reason']), 100)}")


def diff_text(row: Plain, lines: list[str]) -> list[str]:
    """A change with all that a person needs to decide on it."""
    told = [change_line(row), *(f"Text of strangers stood there: {as_shown(one)}" for one in strings(row["sources"]))]
    waits = row["state"] == "pending"
    answer = [f"hermes skills approve {row['id']}, or reject {row['id']}"] if waits else []
    return [*told, "", *lines, *answer]


def decided(row: Plain) -> str:
    """What has become of a change, on one line."""
    return as_shown(f"Change {row['id']} ({row['what']} {row['name']}) is {row['state']}.")


def strings(value: object) -> list[str]:
    """A value that is a list of texts."""
    assert isinstance(value, list)
    return [str(one) for one in value]
