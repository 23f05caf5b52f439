"""Which slash commands somebody may use in a chat."""

from hermes.app.desk import Surface
from hermes.app.slash import registry
from hermes.gateway.people import Person, Role

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
