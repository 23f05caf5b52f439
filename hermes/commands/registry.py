"""Find the slash commands in their folders, once the first line with a slash is typed."""

from functools import cache

from hermes.commands.command import CommandRegistry, SlashCommand
from hermes.commands.context import Surface


@cache
def load_commands() -> tuple[SlashCommand, ...]:
    """Load every built-in command, sorted by name: those of verbs, and those of a session."""
    import hermes.commands
    import hermes.commands.slash
    from hermes.plugins import list_builtin_names, load_builtin

    found: list[SlashCommand] = []
    for folder in (hermes.commands, hermes.commands.slash):
        for name in list_builtin_names(folder):
            module = load_builtin(folder, name)
            found += getattr(module, "COMMANDS", ())
    return tuple(sorted(found, key=lambda one: one.name))


@cache
def command_registry(surface: Surface) -> CommandRegistry:
    """Return the commands that a kind of front-end has."""
    return CommandRegistry(load_commands(), surface)


@cache
def builtin_command_names() -> frozenset[str]:
    """Return the names and aliases of every command, whatever front-end has it."""
    return frozenset(name for surface in Surface for name in command_registry(surface).list_names())
