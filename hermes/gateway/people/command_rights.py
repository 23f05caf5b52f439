"""Access rights to slash commands in chats."""

from functools import cache

from hermes.admin.people.identity import PersonIdentity, PersonRole
from hermes.commands.command import CommandRegistry
from hermes.commands.context import Surface
from hermes.commands.registry import command_registry

_OWNER_COMMANDS = frozenset(
    {"sessions", "resume", "search", "insights", "cron", "approvals", "trust", "reload-mcp", "snapshot"}
)
"""Commands that look into everybody's sessions, jobs and questions, or change what the owner relies on."""
_USER_COMMANDS = frozenset(
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
_GUEST_COMMANDS = frozenset({"help", "new", "stop", "usage"})


@cache
def commands_for(role: PersonRole) -> CommandRegistry:
    """Return the registry of a role's commands; help lists no others."""
    person = PersonIdentity("", role)
    return CommandRegistry(
        [one for one in command_registry(Surface.CHAT).commands if can_use_command(person, one.name)], Surface.CHAT
    )


def can_use_command(person: PersonIdentity, name: str) -> bool:
    """Return whether a person may use a command: an owner all, an admin those that do not look into others' data,
    others those that concern their own session.
    """
    if person.is_owner:
        return True
    command = command_registry(Surface.CHAT).find_command(name)
    if command is None:
        return person.can_administer  # who looks after Hermes is told that there is none
    if person.can_administer:
        return command.name not in _OWNER_COMMANDS
    return command.name in (_USER_COMMANDS if person.role is PersonRole.USER else _GUEST_COMMANDS)
