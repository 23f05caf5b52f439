"""`/people`, `/pair`: administer who may talk with this Hermes from chats, for owner and admins."""

from hermes.admin.people.admin import PeopleAdmin
from hermes.commands.command import CommandCall, CommandGroup, SlashCommand
from hermes.core.errors import UsageError
from hermes.i18n.messages import phrase, say, say_many
from hermes.util.text import escaped

_USAGE = phrase("/people takes: show WHO, role WHO ROLE, rename WHO NAME, remove WHO, audit.")
_MAX_AUDIT_ENTRIES = 20


def _people_admin(call: CommandCall) -> PeopleAdmin:
    on = call.context.app.services
    if not call.context.person.can_administer:  # whoever offers the command has looked already
        raise UsageError(phrase("/{name} is not for you here.", name=call.name))
    return PeopleAdmin(on.store, on.settings, call.context.person)


async def manage_people(call: CommandCall) -> None:
    """List people, and change what they may do."""
    from hermes.commands.views.people import format_audit_entry, format_person

    admin = _people_admin(call)
    match call.words:
        case []:
            lines = [line for row in await admin.list_people() for line in format_person(row)]
        case ["show", who]:
            lines = format_person(await admin.find_person(who))
        case ["role", who, role]:
            lines = format_person(await admin.set_role(who, role))
        case ["rename", who, *words] if words:
            lines = format_person(await admin.rename_person(who, " ".join(words)))
        case ["remove", who]:
            lines = await _remove_person(call, admin, who)
        case ["audit"]:
            lines = [format_audit_entry(row) for row in await admin.list_audit(limit=_MAX_AUDIT_ENTRIES)] or [
                say("Nothing was done yet.")
            ]
        case _:
            raise UsageError(phrase(_USAGE))
    call.context.tell("\n".join(lines))


async def _remove_person(call: CommandCall, admin: PeopleAdmin, who: str) -> list[str]:
    name = escaped(await admin.find_removable_person(who))
    if not await call.context.confirm(say("Know {name} no more? They get no answer then.", name=name)):
        return [say("Nothing was changed.")]
    return [say("{name} is not known any more.", name=escaped(await admin.remove_person(who)))]


async def create_pairing_code(call: CommandCall) -> None:
    """Create a pairing code for one direct chat with this bot."""
    words = call.words
    if len(words) > 1:
        raise UsageError(phrase("/pair takes a role: user or guest, and for an owner also admin or owner."))
    admin = _people_admin(call)
    code = await admin.create_code(words[0] if words else "user")
    call.context.tell(
        say("The code is {code}. It counts once and for an hour: they send it to this bot in a direct chat.", code=code)
    )
    waiting = len(await admin.list_codes())
    call.context.tell(say_many("{n} code waits.", "{n} codes wait.", waiting))


COMMANDS = (
    SlashCommand(
        name="people",
        about=phrase("who may talk with this Hermes, and what they may do"),
        usage=phrase("[show|role|rename|remove|audit] [who]"),
        group=CommandGroup.ABOUT,
        run=manage_people,
    ),
    SlashCommand(
        name="pair",
        about=phrase("make a code by which somebody becomes known"),
        usage=phrase("[role]"),
        group=CommandGroup.ABOUT,
        run=create_pairing_code,
    ),
)
