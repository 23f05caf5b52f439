"""The commands that enabled packages add: slash commands, and verbs of the command line.

An entry point of the group `hermes.commands` names a `SlashCommand`, a `Verb`, or a list of both, all called like the
entry point. A name that Hermes has itself is never taken.
"""

import logging
import re
from collections.abc import Callable, Collection, Sequence

from msgspec import Struct

from hermes.commands.command import CommandGroup, SlashCommand
from hermes.commands.verb import Verb, slash_command
from hermes.core.errors import ConfigError
from hermes.i18n.messages import N_
from hermes.plugins import InstalledPackage, load_enabled
from hermes.util.text import to_one_line

_LOG = logging.getLogger(__name__)
_NAME = re.compile(r"[a-z][a-z0-9-]{0,31}", re.ASCII)
_MAX_REASON = 200


class PackageCommands(Struct, frozen=True):
    """The slash commands of enabled packages, and lines for the person about what could not be used."""

    commands: tuple[SlashCommand, ...] = ()
    problems: tuple[str, ...] = ()


def load_package_commands(taken: Collection[str]) -> PackageCommands:
    """Load the slash commands of enabled packages, also those of verbs whose actions are for chats; `taken` are the
    names of other commands. Nothing is imported where nothing was ever enabled.
    """
    found: dict[str, SlashCommand] = {}
    problems: list[str] = []
    used = set(taken)
    for package, name, load in load_enabled("commands"):
        try:
            offered = _load_offered(package, name, load)
        except ConfigError as error:
            problems.append(error.message)
            continue
        command = next((one for one in offered if isinstance(one, SlashCommand)), None) or _make_slash_command(offered)
        if command is None:
            continue
        names = {command.name, *command.aliases}
        if not used.isdisjoint(names):
            said = N_("The command /{name} of a package is left out: there is one of that name.", name=name)
            problems.append(said)
            continue
        used |= names
        found[name] = command
    for line in problems:
        _LOG.warning("%s", line)
    return PackageCommands(tuple(found.values()), tuple(problems))


def find_package_verb(name: str) -> Verb | None:
    """Return the verb of that name that an enabled package adds; only that package is imported. Raises ConfigError for
    one that cannot be used.
    """
    for package, offered, load in load_enabled("commands"):
        if offered == name:
            verb = next((one for one in _load_offered(package, name, load) if isinstance(one, Verb)), None)
            if verb is not None:
                return verb
    return None


def _load_offered(package: InstalledPackage, name: str, load: Callable[[], object]) -> Sequence[SlashCommand | Verb]:
    """Import what an entry point names. Raises ConfigError for anything else than commands of its name."""
    try:
        loaded = load()
    except Exception as error:  # noqa: BLE001 - somebody else's code: said, and gone on without
        _LOG.warning("%s of the package %s cannot be loaded", name, package.name, exc_info=True)
        reason = to_one_line(f"{type(error).__name__}: {error}", _MAX_REASON)
        raise _build_error(package, name, reason) from None
    offered = loaded if isinstance(loaded, list | tuple) else [loaded]
    found = [one for one in offered if isinstance(one, SlashCommand | Verb)]
    if len(found) != len(offered) or not found:
        raise _build_error(package, name, N_("it is neither a SlashCommand nor a Verb"))
    if not _NAME.fullmatch(name) or any(one.name != name for one in found):
        raise _build_error(package, name, N_("its commands have another name than its entry point"))
    return found


def _build_error(package: InstalledPackage, name: str, reason: str) -> ConfigError:
    return ConfigError(
        N_("{name} of the package {package} cannot be used: {reason}.", name=name, package=package.name, reason=reason)
    )


def _make_slash_command(offered: Sequence[SlashCommand | Verb]) -> SlashCommand | None:
    """Return the slash command of a verb that has actions for chats."""
    verb = next((one for one in offered if isinstance(one, Verb)), None)
    actions = [one.name for one in verb.actions.values() if one.in_chats] if verb is not None else []
    if verb is None or not actions:
        return None
    return slash_command(
        verb,
        about=verb.description.partition(". ")[0].rstrip("."),
        usage=f"[{' | '.join(filter(None, actions))}]",
        group=CommandGroup.MODEL,
        takes=N_("/{name} takes: {actions}.", name=verb.name, actions=", ".join(filter(None, actions))),
        outside=N_("That is done in a terminal."),
    )
