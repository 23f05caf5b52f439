"""Find the slash commands in their folders, once the first line with a slash is typed."""

from collections.abc import Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING

from hermes.commands.command import CommandRegistry, SlashCommand
from hermes.commands.context import Surface
from hermes.plugins import PACKAGES

if TYPE_CHECKING:
    from hermes.commands.packages import PackageCommands


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


def command_registry(surface: Surface) -> CommandRegistry:
    """Return the commands that a kind of front-end has, with those of enabled packages."""
    return _build_registry(surface, PACKAGES.generation)


def builtin_command_names() -> frozenset[str]:
    """Return the names and aliases of every command, whatever front-end has it."""
    return frozenset(name for surface in Surface for name in command_registry(surface).list_names())


def list_package_problems() -> Sequence[str]:
    """Return lines about commands of enabled packages that cannot be used."""
    return _load_of_packages(PACKAGES.generation).problems


@lru_cache(maxsize=8)
def _build_registry(surface: Surface, generation: int) -> CommandRegistry:
    return CommandRegistry((*load_commands(), *_load_of_packages(generation).commands), surface)


@lru_cache(maxsize=4)
def _load_of_packages(generation: int) -> "PackageCommands":
    """Load the commands of packages, once for the consents that the process uses."""
    del generation
    from hermes.commands.packages import PackageCommands, load_package_commands

    if not PACKAGES.has_any():
        return PackageCommands()
    return load_package_commands({name for one in load_commands() for name in (one.name, *one.aliases)})
