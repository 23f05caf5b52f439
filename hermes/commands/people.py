"""`hermes people`, `/people`: manage who may talk with the agent from chats.

`hermes pairing`, `/pair` manage the codes by which somebody becomes known; `hermes audit` shows what people did.
"""

from argparse import SUPPRESS
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from hermes.commands.command import CommandCall, CommandGroup, CommandList
from hermes.commands.context import CommandContext
from hermes.commands.verb import (
    JSON_OPTION,
    YES_OPTION,
    AdminVerb,
    VerbCall,
    VerbResult,
    argument,
    rows_result,
    slash_command,
)
from hermes.core.chats import PairingQuestion, PairingRequest
from hermes.core.encoding import Plain
from hermes.core.errors import BusyError, UsageError
from hermes.core.usage import format_amount
from hermes.i18n.formats import format_time
from hermes.i18n.messages import N_, localize, tr, tr_plural
from hermes.store.records import CapUsage
from hermes.util.text import escape_unseen_characters, to_one_line

if TYPE_CHECKING:
    from hermes.admin.people.admin import PeopleAdmin

_MAX_CHAT_ENTRIES = 20


@asynccontextmanager
async def _open_people(call: VerbCall) -> "AsyncIterator[PeopleAdmin]":
    from hermes.admin.people.admin import open_people_admin

    if call.context is not None:
        yield _people_admin(call.context, "people")
        return
    async with open_people_admin(call.environ) as admin:
        yield admin


def _people_admin(context: CommandContext, command: str) -> "PeopleAdmin":
    """Return the people of an open App, with the rights of the person in the chat. Raises UsageError for one without
    any.
    """
    from hermes.admin.people.admin import PeopleAdmin

    on = context.app.services
    if not context.person.can_administer:  # whoever offers the command has looked already
        raise UsageError(N_("/{name} is not for you here.", name=command))
    return PeopleAdmin(on.store, on.settings, context.person)


_PERSON = argument("person", help="their id, or their name")
_PLATFORM = argument("platform", help="an account of Hermes', as `platforms:` names it")
_ACCOUNT = argument("account", help="the platform's own id of their account")
PEOPLE = AdminVerb(
    "people",
    _open_people,
    description="Who may talk with the agent from chats, by which accounts, and as what. The owner is one person"
    " everywhere, at this terminal too. What is changed counts from their next message on.",
    example="hermes people link owner telegram 12345678",
)


@PEOPLE.admin_action("list", "everybody who is known (also without a verb)", JSON_OPTION, in_chats=True)
async def list_people(admin: "PeopleAdmin", call: VerbCall) -> VerbResult:
    """List everybody who is known."""
    del call
    return rows_result(await admin.list_people(), format_person, "")


@PEOPLE.admin_action("show", "one person, with what they may do", _PERSON, JSON_OPTION, in_chats=True)
async def show_person(admin: "PeopleAdmin", call: VerbCall) -> VerbResult:
    """Show one person with their rights."""
    return _person_result(await admin.find_person(call.args.person))


@PEOPLE.admin_action(
    "add",
    "add somebody, who has no account yet",
    _PERSON,
    argument("--name", default="", help="what they are called"),
    argument("--role", default="user", help="admin, user (the default) or guest"),
    JSON_OPTION,
)
async def add_person(admin: "PeopleAdmin", call: VerbCall) -> VerbResult:
    """Add a person without an account."""
    return _person_result(await admin.add_person(call.args.person, name=call.args.name, role=call.args.role))


@PEOPLE.admin_action(
    "rename",
    "call somebody so",
    _PERSON,
    argument("name", takes_rest=True, help="what they are called"),
    JSON_OPTION,
    in_chats=True,
)
async def rename_person(admin: "PeopleAdmin", call: VerbCall) -> VerbResult:
    """Change a person's display name."""
    return _person_result(await admin.rename_person(call.args.person, call.args.name))


@PEOPLE.admin_action(
    "role",
    "change a person's role: admin, user or guest",
    _PERSON,
    argument("role", help="admin, user or guest"),
    JSON_OPTION,
    in_chats=True,
)
async def set_role(admin: "PeopleAdmin", call: VerbCall) -> VerbResult:
    """Give a person another role."""
    return _person_result(await admin.set_role(call.args.person, call.args.role))


@PEOPLE.admin_action("link", "link an account on a platform to a person", _PERSON, _PLATFORM, _ACCOUNT, JSON_OPTION)
async def link_account(admin: "PeopleAdmin", call: VerbCall) -> VerbResult:
    """Link an account on a platform to a person."""
    return _person_result(await admin.link_account(call.args.person, call.args.platform, call.args.account))


@PEOPLE.admin_action("unlink", "unlink an account from its person", _PLATFORM, _ACCOUNT, JSON_OPTION)
async def unlink_account(admin: "PeopleAdmin", call: VerbCall) -> VerbResult:
    """Unlink an account, and show whose it was."""
    return _person_result(await admin.find_person(await admin.unlink_account(call.args.platform, call.args.account)))


@PEOPLE.admin_action("remove", "remove a person", _PERSON, YES_OPTION, JSON_OPTION, in_chats=True)
async def remove_person(admin: "PeopleAdmin", call: VerbCall) -> VerbResult:
    """Remove a person after a yes."""
    name = escape_unseen_characters(await admin.find_removable_person(call.args.person))
    question = tr("Remove {name}? They get no answers then.", name=name)
    await call.require_yes(question, what=tr("Removing somebody"))
    removed = await admin.remove_person(call.args.person)
    line = tr("{name} was removed.", name=escape_unseen_characters(removed))
    return VerbResult({"removed": removed}, [line])


@PEOPLE.admin_action("audit", "", in_chats=True, on_command_line=False)
async def show_newest_entries(admin: "PeopleAdmin", call: VerbCall) -> VerbResult:
    """List what people did last; on the command line `hermes audit` does that."""
    del call
    return rows_result(await admin.list_audit(limit=_MAX_CHAT_ENTRIES), format_audit_entry, tr("Nothing was done yet."))


def _person_result(row: Plain) -> VerbResult:
    return VerbResult(row, format_person(row))


PAIRING = AdminVerb(
    "pairing",
    _open_people,
    description="Pairing codes: a new person sends the code to the bot in a direct chat. A code "
    "works once and for an hour; three may be open for each platform.",
    example="hermes pairing new --role user --platform telegram",
)


@PAIRING.admin_action(
    "new",
    "make a code, which is shown once",
    argument("--role", default="user", help="what they become: owner, admin, user (the default) or guest"),
    argument("--platform", default="", help="the only account of Hermes' where it counts, as `platforms:` names it"),
    argument("--person", default="", metavar="ID", help="a known person, who gets one more account"),
    argument("--name", default="", help="what they are called"),
    JSON_OPTION,
)
async def create_code(admin: "PeopleAdmin", call: VerbCall) -> VerbResult:
    """Create a pairing code."""
    args = call.args
    code = await admin.create_code(args.role, platform=args.platform, name=args.name, person_id=args.person)
    where, person = escape_unseen_characters(args.platform) or tr("any platform"), escape_unseen_characters(args.person)
    what = tr("one more account of {person}", person=person) if person else format_role(args.role)
    note = tr("They send it to the bot in a direct chat, within an hour. It is not shown again.")
    bots = await admin.find_bots(code, args.platform)
    links = [one.link for one in bots if one.link]
    names = [escape_unseen_characters(f"{one.account}: {one.name}") for one in bots if one.name]
    lines = [code, tr("For: {what}, on {where}.", what=what, where=where), note, *names, *links]
    return VerbResult({"code": code, "role": args.role, "platform": args.platform, "links": links}, lines)


@PAIRING.admin_action("list", "the codes that wait (also without a verb)", JSON_OPTION)
async def list_codes(admin: "PeopleAdmin", call: VerbCall) -> VerbResult:
    """List the pending codes."""
    del call
    rows = [*await admin.list_codes(), *await admin.list_requests()]
    return rows_result(rows, format_pairing_code, tr("No code waits."))


_CODE = argument("code", help="the code that they were shown")
_CODE_PLATFORM = argument(
    "platform", nargs="?", default="", help="the account of Hermes' that they wrote to; any, where it is not named"
)


@PAIRING.admin_action(
    "approve",
    "let somebody in who asked, and was shown this code",
    _CODE_PLATFORM,
    _CODE,
    argument("--role", default="user", help="what they become: admin, user (the default) or guest"),
    JSON_OPTION,
)
async def approve_request(admin: "PeopleAdmin", call: VerbCall) -> VerbResult:
    """Let somebody in."""
    wish = await admin.approve_request(call.args.code, call.args.role, platform=call.args.platform)
    return VerbResult({"account": wish.account, "role": call.args.role}, [describe_settled(wish, call.args.role)])


@PAIRING.admin_action("deny", "refuse somebody who asked; they are told nothing", _CODE_PLATFORM, _CODE, JSON_OPTION)
async def deny_request(admin: "PeopleAdmin", call: VerbCall) -> VerbResult:
    """Refuse somebody."""
    wish = await admin.deny_request(call.args.code, platform=call.args.platform)
    return VerbResult({"account": wish.account}, [describe_settled(wish, "")])


def describe_settled(wish: PairingRequest | PairingQuestion, role: str) -> str:
    """Return what became of a request; an empty role refused it."""
    name = escape_unseen_characters(to_one_line(wish.name or wish.account, 40))
    if not role:
        return tr("{name} ({platform} {account}) stays out.", name=name, platform=wish.platform, account=wish.account)
    known = {"platform": wish.platform, "account": wish.account, "role": format_role(role)}
    return tr("{name} ({platform} {account}) is known now, as {role}.", name=name, **known)


@PAIRING.admin_action(
    "revoke",
    "revoke a code",
    argument("code", help="its id, as `list` shows it"),
    argument("account", nargs="?", default="", help=SUPPRESS),
    JSON_OPTION,
)
async def revoke_code(admin: "PeopleAdmin", call: VerbCall) -> VerbResult:
    """Revoke a pending code. Other agents revoke an account of a platform so: what does that here is named."""
    if call.args.account:
        raise UsageError(
            N_("Here `pairing revoke` takes back a code that nobody has used yet."),
            N_(
                "An account loses its person by: hermes people unlink {platform} {account}",
                platform=call.args.code,
                account=call.args.account,
            ),
        )
    await admin.revoke_code(call.args.code)
    return VerbResult({"revoked": call.args.code}, [tr("The code is revoked.")])


AUDIT = AdminVerb(
    "audit",
    _open_people,
    description="What people did from chats, the newest first: messages, answers to questions, what was refused, people"
    " and codes that were changed, unknown senders who were turned away. The newest 100,000 are kept.",
    example="hermes audit --person telegram:12345678 -n 20",
)


@AUDIT.admin_action(
    "",
    "",
    argument("--person", default="", metavar="ID", help="only what this person did"),
    argument("--platform", default="", metavar="NAME", help="only what was done there"),
    argument("-n", type=int, default=50, dest="limit", metavar="N", help="how many, 50 by default"),
    JSON_OPTION,
)
async def list_audit(admin: "PeopleAdmin", call: VerbCall) -> VerbResult:
    """List what people did, the newest first."""
    args = call.args
    rows = await admin.list_audit(person=args.person, platform=args.platform, limit=max(args.limit, 1))
    return rows_result(rows, format_audit_entry, tr("Nothing was done yet."))


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
    if "code" not in row and "account" in row:
        return tr(
            "{name} ({platform} {account}) asks to be let in: `hermes pairing approve` with their code, until {until}",
            name=escape_unseen_characters(to_one_line(str(row["name"]), 40)),
            platform=row["platform"],
            account=escape_unseen_characters(str(row["account"])),
            until=format_time(float(str(row["expires_at"]))),
        )
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


COMMANDS = CommandList(CommandGroup.ABOUT)
COMMANDS.append(
    slash_command(
        PEOPLE,
        about=N_("who may talk with this Hermes, and what they may do"),
        usage=N_("[show|role|rename|remove|audit] [who]"),
        group=CommandGroup.ABOUT,
        takes=N_("/people takes: show WHO, role WHO ROLE, rename WHO NAME, remove WHO, audit."),
    )
)


@COMMANDS.command("pair", N_("make a pairing code for a new person"), usage=N_("[role]"))
async def create_pairing_code(call: CommandCall) -> None:
    """Create a pairing code for one direct chat with this bot."""
    words = call.words
    if len(words) > 1:
        raise UsageError(N_("/pair takes a role: user or guest, and for an owner also admin or owner."))
    admin = _people_admin(call.context, call.name)
    try:
        code = await admin.create_code(words[0] if words else "user")
    except BusyError as error:
        raise BusyError(error.message, N_("Each runs out after an hour.")) from None
    call.context.tell(
        tr(("The code is {code}. It works once and for an hour: they send it to this bot in a direct chat."), code=code)
    )
    waiting = len(await admin.list_codes())
    call.context.tell(tr_plural("{n} code waits.", "{n} codes wait.", waiting))
