"""Finds the slash commands: files of a folder, read only once the first line with a slash is typed."""

from functools import cache

from hermes.commands.command import Command, Registry
from hermes.commands.context import Surface


@cache
def all_commands() -> tuple[Command, ...]:
    """Every command that is built in, in the order of their files."""
    import hermes.commands.slash
    from hermes.plugins import builtin_names, load_builtin

    found: list[Command] = []
    for name in builtin_names(hermes.commands.slash):
        module = load_builtin(hermes.commands.slash, name)
        found += getattr(module, "COMMANDS", None) or [module.COMMAND]
    return tuple(found)


@cache
def registry(surface: Surface) -> Registry:
    """The commands that a kind of front-end has."""
    return Registry(all_commands(), surface)
