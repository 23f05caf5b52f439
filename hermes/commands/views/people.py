"""Format people, codes and audit entries as lines, for CLI verbs and slash commands."""

from collections.abc import Sequence

from hermes.core.money import shown
from hermes.i18n.formats import moment
from hermes.i18n.messages import phrase, say, translated
from hermes.sessions.formats.openai_format import Plain
from hermes.store.rows import Standing
from hermes.util.text import escaped, one_line

_ROLE_NAMES = {"owner": phrase("owner"), "admin": phrase("admin"), "user": phrase("user"), "guest": phrase("guest")}


def format_role(role: object) -> str:
    """Return the localized name of a role."""
    return translated(_ROLE_NAMES.get(str(role), str(role)))


def format_person(row: Plain) -> list[str]:
    """Format a person with their accounts and, where they are known, their rights."""
    name = one_line(escaped(str(row["name"])), 60)
    lead = say("{id}: {role}", id=escaped(str(row["id"])), role=format_role(row["role"]))
    lines = [f"{lead} ({name})" if name else lead]
    accounts = row["accounts"]
    for one in accounts if isinstance(accounts, list) else ():
        place = f"{escaped(str(one['platform']))} {escaped(str(one['account']))}"
        lines.append("  " + (say("{account}, by config.yaml", account=place) if one["by"] == "settings" else place))
    may = row.get("may")
    if isinstance(may, dict):
        lines += [f"  {line}" for line in _format_rights(may)]
    return lines


def _format_rights(may: dict[str, object]) -> list[str]:
    sets = may["toolsets"]
    if sets is None:
        tools = say("all that are on")
    else:
        tools = ", ".join(map(str, sets)) if isinstance(sets, list | tuple) and sets else say("none")
    lines = [
        say("tools: {tools}", tools=tools),
        say("remembers: {word}", word=say("yes") if may["memory"] else say("no")),
        say("answers questions of their own: {word}", word=say("yes") if may["approve"] else say("no")),
    ]
    if may["turns_per_hour"]:
        lines.append(say("turns in an hour: {n}", n=may["turns_per_hour"]))
    if may["usd_per_day"] is not None:
        lines.append(say("dollars in a day: {n}", n=may["usd_per_day"]))
    return lines


def format_remaining_quota(turns: int, most: int, standings: Sequence[Standing]) -> list[str]:
    """Format what is left of a role's quota of turns and money."""
    lines = [say("{n} of {most} turns of this hour", n=turns, most=most)] if most else []
    for one in standings:
        spent, whole = shown(one.nano + one.held_nano), shown(one.cap.nano or 0)
        lines.append(say("{spent} of {whole} of this day", spent=spent, whole=whole))
    return lines


def format_pairing_code(row: Plain) -> str:
    """Format a pending pairing code."""
    who = str(row["person"]) or format_role(row["role"])
    where = str(row["platform"]) or say("any platform")
    until = moment(float(str(row["expires_at"])))
    return say("{id}: {who}, {where}, until {until}", id=row["id"], who=escaped(who), where=escaped(where), until=until)


def format_audit_entry(row: Plain) -> str:
    """Format an audit entry. The action keeps the name that it has in the store."""
    account = " ".join(str(row[key]) for key in ("platform", "account") if row[key])
    who = str(row["person"]) or say("(unknown)")
    parts = [moment(float(str(row["at"]))), who, account, str(row["what"]), str(row["detail"])]
    return "  ".join(one_line(escaped(part), 100) for part in parts if part)
