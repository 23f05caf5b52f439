"""Format people, codes and audit entries as lines, for CLI verbs and slash commands."""

from collections.abc import Sequence

from hermes.core.usage import format_amount
from hermes.i18n.formats import format_time
from hermes.i18n.messages import N_, localize, tr
from hermes.sessions.formats.openai_format import Plain
from hermes.store.records import CapUsage
from hermes.util.text import escape_unseen_characters, to_one_line

_ROLE_NAMES = {"owner": N_("owner"), "admin": N_("admin"), "user": N_("user"), "guest": N_("guest")}


def format_role(role: object) -> str:
    """Return the localized name of a role."""
    return localize(_ROLE_NAMES.get(str(role), str(role)))


def format_person(row: Plain) -> list[str]:
    """Format a person with their accounts and, where they are known, their rights."""
    name = to_one_line(escape_unseen_characters(str(row["name"])), 60)
    lead = tr("{id}: {role}", id=escape_unseen_characters(str(row["id"])), role=format_role(row["role"]))
    lines = [f"{lead} ({name})" if name else lead]
    accounts = row["accounts"]
    for one in accounts if isinstance(accounts, list) else ():
        place = f"{escape_unseen_characters(str(one['platform']))} {escape_unseen_characters(str(one['account']))}"
        lines.append("  " + (tr("{account}, by config.yaml", account=place) if one["by"] == "settings" else place))
    may = row.get("may")
    if isinstance(may, dict):
        lines += [f"  {line}" for line in _format_rights(may)]
    return lines


def _format_rights(may: dict[str, object]) -> list[str]:
    sets = may["toolsets"]
    if sets is None:
        tools = tr("all that are on")
    else:
        tools = ", ".join(map(str, sets)) if isinstance(sets, list | tuple) and sets else tr("none")
    lines = [
        tr("tools: {tools}", tools=tools),
        tr("remembers: {word}", word=tr("yes") if may["memory"] else tr("no")),
        tr("answers questions of their own: {word}", word=tr("yes") if may["approve"] else tr("no")),
    ]
    if may["turns_per_hour"]:
        lines.append(tr("turns in an hour: {n}", n=may["turns_per_hour"]))
    if may["usd_per_day"] is not None:
        lines.append(tr("dollars in a day: {n}", n=may["usd_per_day"]))
    return lines


def format_remaining_quota(turns: int, most: int, standings: Sequence[CapUsage]) -> list[str]:
    """Format what is left of a role's quota of turns and money."""
    lines = [tr("{n} of {most} turns of this hour", n=turns, most=most)] if most else []
    for one in standings:
        spent, whole = format_amount(one.nano + one.held_nano), format_amount(one.cap.nano or 0)
        lines.append(tr("{spent} of {whole} of this day", spent=spent, whole=whole))
    return lines


def format_pairing_code(row: Plain) -> str:
    """Format a pending pairing code."""
    who = str(row["person"]) or format_role(row["role"])
    where = str(row["platform"]) or tr("any platform")
    until = format_time(float(str(row["expires_at"])))
    return tr(
        "{id}: {who}, {where}, until {until}",
        id=row["id"],
        who=escape_unseen_characters(who),
        where=escape_unseen_characters(where),
        until=until,
    )


def format_audit_entry(row: Plain) -> str:
    """Format an audit entry. The action keeps the name that it has in the store."""
    account = " ".join(str(row[key]) for key in ("platform", "account") if row[key])
    who = str(row["person"]) or tr("(unknown)")
    parts = [format_time(float(str(row["at"]))), who, account, str(row["what"]), str(row["detail"])]
    return "  ".join(to_one_line(escape_unseen_characters(part), 100) for part in parts if part)
