"""Find the slash commands in their folder, once the first line with a slash is typed."""

from functools import cache

from hermes.commands.command import CommandRegistry, SlashCommand
from hermes.commands.context import Surface


@cache
def load_commands() -> tuple[SlashCommand, ...]:
    """Load every built-in command, in the order of their files."""
    import hermes.commands.slash
    from hermes.plugins import builtin_names, load_builtin

    found: list[SlashCommand] = []
    for name in builtin_names(hermes.commands.slash):
        module = load_builtin(hermes.commands.slash, name)
        found += getattr(module, "COMMANDS", None) or [module.COMMAND]
    return tuple(found)


@cache
def command_registry(surface: Surface) -> CommandRegistry:
    """Return the commands that a kind of front-end has."""
    return CommandRegistry(load_commands(), surface)
