"""Which slash commands somebody may use in a chat."""

from functools import cache

from hermes.commands.command import Registry
from hermes.commands.context import Surface
from hermes.commands.registry import registry
from hermes.gateway.people.identity import Person, Role

_OWN = frozenset({"sessions", "resume", "search", "insights", "cron", "approvals", "trust", "reload-mcp", "snapshot"})
"""Those that look into everybody's sessions, jobs and questions, or change what the owner relies on."""
_USERS = frozenset(
    {
        "help",
        "new",
        "stop",
        "steer",
        "queue",
        "interrupt",
        "retry",
        "undo",
        "redo",
        "compress",
        "status",
        "usage",
        "title",
        "memory",
    }
)
_GUESTS = frozenset({"help", "new", "stop", "usage"})


@cache
def commands_for(role: Role) -> Registry:
    """The commands that people of a role have; help lists no others."""
    person = Person("", role)
    return Registry([one for one in registry(Surface.CHAT).commands if may_use(person, one.name)], Surface.CHAT)


def may_use(person: Person, name: str) -> bool:
    """Whether a person may use a command: an owner all of them, an admin those that do not look into others' things,
    others what concerns their own session."""
    if person.owner:
        return True
    command = registry(Surface.CHAT).find(name)
    if command is None:
        return person.leads  # who looks after Hermes is told that there is none
    if person.leads:
        return command.name not in _OWN
    return command.name in (_USERS if person.role is Role.USER else _GUESTS)
