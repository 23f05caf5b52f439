"""Complete the input line: commands and their arguments, and files behind an `@`."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hermes.commands.command import CommandCall, CommandGroup, CommandRegistry, SlashCommand
from hermes.commands.context import CommandContext, MenuOption, Surface
from hermes.commands.registry import command_registry
from hermes.core.errors import HermesError
from hermes.i18n.messages import tr
from hermes.util.text import escape_unseen_characters

MAX_ENTRIES = 200
"""Files looked at in one folder before the rest is left out."""
_REFERENCE_KINDS = ("file:", "folder:", "diff", "staged", "git:", "url:")


class ChatCompleter(Completer):
    """Completes the input line of a chat. `context` returns None until the session is open."""

    def __init__(
        self, context: Callable[[], CommandContext | None], skills: Callable[[], Sequence[MenuOption]]
    ) -> None:
        self._context = context
        self._skills = skills

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return nothing: only the asynchronous form is used."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Complete commands at the beginning of the line, their arguments, and paths behind an `@`."""
        before = document.text_before_cursor
        if before.startswith("/") and "\n" not in before:
            async for one in self._complete_commands(before[1:]):
                yield one
            return
        word = before.rsplit(None, 1)[-1] if before and not before[-1].isspace() else ""
        if word.startswith("@"):
            for one in await asyncio.to_thread(lambda: list(complete_references(word[1:], self._working_folder()))):
                yield one
        elif complete_event.completion_requested and "/" in word:
            for one in await asyncio.to_thread(lambda: list(complete_paths(word, self._working_folder()))):
                yield one

    def _working_folder(self) -> str:
        context = self._context()
        return context.app.options.cwd or os.getcwd() if context is not None else os.getcwd()

    async def _complete_commands(self, typed: str) -> AsyncGenerator[Completion, None]:
        commands = command_registry(Surface.TERMINAL)
        name, space, rest = typed.partition(" ")
        if not space:
            for one in _complete_names(commands, name, self._skills()):
                yield one
            return
        command, context = commands.find_command(name), self._context()
        if command is None or command.complete is None or context is None:
            return
        last = rest.rsplit(" ", 1)[-1]
        try:
            offered = await command.complete(CommandCall(context, name, rest, commands))
        except HermesError:
            return  # what cannot be looked up now is not offered
        for option in offered:
            if option.label.lower().startswith(last.lower()):
                yield Completion(
                    option.label, start_position=-len(last), display_meta=escape_unseen_characters(option.detail)
                )


def _complete_names(commands: CommandRegistry, typed: str, skills: Sequence[MenuOption]) -> Iterable[Completion]:
    """Complete names that begin with what was typed, then aliases that do, then names that have it inside."""
    low = typed.lower()
    rows = [(one.name, tr(one.about)) for one in _sort_commands(commands)]
    rows += [(option.label, option.detail) for option in skills if option.label not in commands]
    found = [row for row in rows if row[0].startswith(low)]
    if low:
        found += _match_aliases(commands, low)
        found += [row for row in rows if low in row[0][1:] and not row[0].startswith(low)]
    for name, about in found:
        yield Completion(
            name, start_position=-len(typed), display=f"/{name}", display_meta=escape_unseen_characters(about)
        )


def _sort_commands(commands: CommandRegistry) -> list[SlashCommand]:
    """Return the commands in the order in which `/help` shows them, without those of other front-ends."""
    order = list(CommandGroup)
    shown = [one for one in commands.commands if one.group is not CommandGroup.ELSEWHERE]
    return sorted(shown, key=lambda one: order.index(one.group))


def _match_aliases(commands: CommandRegistry, low: str) -> list[tuple[str, str]]:
    return [
        (alias, tr("the same as /{name}", name=one.name))
        for one in commands.commands
        for alias in one.aliases
        if one.group is not CommandGroup.ELSEWHERE and alias.startswith(low) and not one.name.startswith(low)
    ]


def complete_references(typed: str, folder: str) -> Iterable[Completion]:
    """Complete what may stand behind an `@`: the kinds of references, and files and folders for the two
    that take them.
    """
    for kind in ("file:", "folder:"):
        if typed.startswith(kind):
            for one in complete_paths(typed.removeprefix(kind), folder, only_folders=kind == "folder:"):
                yield one
            return
    for kind in _REFERENCE_KINDS:
        if typed and kind.startswith(typed):
            yield Completion(kind, start_position=-len(typed), display=f"@{kind}")
    if ":" not in typed:
        for one in complete_paths(typed, folder, prefix="file:", whole=typed):
            yield one


def complete_paths(
    typed: str, folder: str, *, only_folders: bool = False, prefix: str = "", whole: str | None = None
) -> Iterable[Completion]:
    """Complete files and folders whose path begins with what was typed; hidden ones only when their dot was typed."""
    head, tail = os.path.split(typed)
    replaced = len(typed if whole is not None else tail)
    for name, is_folder in _list_entries(os.path.join(folder, os.path.expanduser(head)), tail):
        if only_folders and not is_folder:
            continue
        shown = f"{name}/" if is_folder else name
        text = f"{prefix}{os.path.join(head, shown)}" if whole is not None else shown
        yield Completion(text, start_position=-replaced, display=shown)


def _list_entries(folder: str, start: str) -> list[tuple[str, bool]]:
    """Return the names in a folder that begin so, in any letter case, and whether each is a folder."""
    found = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                fits = entry.name.lower().startswith(start.lower()) and (start.startswith(".") or entry.name[0] != ".")
                if fits and " " not in entry.name and escape_unseen_characters(entry.name) == entry.name:
                    found.append((entry.name, entry.is_dir()))
                if len(found) >= MAX_ENTRIES:
                    break
    except OSError:
        return []
    return sorted(found)
