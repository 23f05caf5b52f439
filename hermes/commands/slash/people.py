"""`/people`, `/pair`: who may talk with this Hermes from chats, for whoever looks after it."""

from hermes.admin.people.admin import PeopleDesk
from hermes.commands.command import Call, Command, Group
from hermes.core.errors import UsageError
from hermes.i18n.messages import phrase, say, say_many
from hermes.util.text import escaped

_USAGE = phrase("/people takes: show WHO, role WHO ROLE, rename WHO NAME, remove WHO, audit.")
_SHOWN = 20


def _desk(call: Call) -> PeopleDesk:
    on = call.desk.app.premises
    if not call.desk.person.leads:  # whoever offers the command has looked already
        raise UsageError(phrase("/{name} is not for you here.", name=call.name))
    return PeopleDesk(on.store, on.settings, call.desk.person)


async def people(call: Call) -> None:
    """List people, and change what they may do."""
    from hermes.commands.views.people import deed_line, person_lines

    desk = _desk(call)
    match call.words:
        case []:
            lines = [line for row in await desk.rows() for line in person_lines(row)]
        case ["show", who]:
            lines = person_lines(await desk.row(who))
        case ["role", who, role]:
            lines = person_lines(await desk.give_role(who, role))
        case ["rename", who, *words] if words:
            lines = person_lines(await desk.rename(who, " ".join(words)))
        case ["remove", who]:
            lines = await _removed(call, desk, who)
        case ["audit"]:
            lines = [deed_line(row) for row in await desk.audit(limit=_SHOWN)] or [say("Nothing was done yet.")]
        case _:
            raise UsageError(phrase(_USAGE))
    call.desk.tell("\n".join(lines))


async def _removed(call: Call, desk: PeopleDesk, who: str) -> list[str]:
    name = escaped(await desk.removable(who))
    if not await call.desk.confirm(say("Know {name} no more? They get no answer then.", name=name)):
        return [say("Nothing was changed.")]
    return [say("{name} is not known any more.", name=escaped(await desk.remove(who)))]


async def pair(call: Call) -> None:
    """Make a code by which somebody becomes known; it is for one direct chat with this bot."""
    words = call.words
    if len(words) > 1:
        raise UsageError(phrase("/pair takes a role: user or guest, and for an owner also admin or owner."))
    desk = _desk(call)
    code = await desk.offer(words[0] if words else "user")
    call.desk.tell(
        say("The code is {code}. It counts once and for an hour: they send it to this bot in a direct chat.", code=code)
    )
    waiting = len(await desk.codes())
    call.desk.tell(say_many("{n} code waits.", "{n} codes wait.", waiting))


COMMANDS = (
    Command(
        name="people",
        about=phrase("who may talk with this Hermes, and what they may do"),
        usage=phrase("[show|role|rename|remove|audit] [who]"),
        group=Group.ABOUT,
        run=people,
    ),
    Command(
        name="pair",
        about=phrase("make a code by which somebody becomes known"),
        usage=phrase("[role]"),
        group=Group.ABOUT,
        run=pair,
    ),
)
