"""What the Tab key offers: commands and what stands behind them, and files behind an `@`."""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hermes.commands.command import CommandCall, CommandGroup, CommandRegistry, SlashCommand
from hermes.commands.context import CommandContext, MenuOption, Surface
from hermes.commands.registry import command_registry
from hermes.core.errors import HermesError
from hermes.i18n.messages import say
from hermes.util.text import escaped

MOST = 200
"""Files looked at in one folder before the rest is left out."""
_KINDS = ("file:", "folder:", "diff", "staged", "git:", "url:")


class ChatCompleter(Completer):
    """Completes the input line of a chat. `desk` is None until the session is open."""

    def __init__(self, desk: Callable[[], CommandContext | None], skills: Callable[[], Sequence[MenuOption]]) -> None:
        self._desk = desk
        self._skills = skills

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Only the asynchronous form is used."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Commands at the beginning of the line, their arguments, and paths behind an `@`."""
        before = document.text_before_cursor
        if before.startswith("/") and "\n" not in before:
            async for one in self._commands(before[1:]):
                yield one
            return
        word = before.rsplit(None, 1)[-1] if before and not before[-1].isspace() else ""
        if word.startswith("@"):
            for one in await asyncio.to_thread(lambda: list(references(word[1:], self._folder()))):
                yield one
        elif complete_event.completion_requested and "/" in word:
            for one in await asyncio.to_thread(lambda: list(paths(word, self._folder()))):
                yield one

    def _folder(self) -> str:
        desk = self._desk()
        return desk.app.options.cwd or os.getcwd() if desk is not None else os.getcwd()

    async def _commands(self, typed: str) -> AsyncGenerator[Completion, None]:
        commands = command_registry(Surface.TERMINAL)
        name, space, rest = typed.partition(" ")
        if not space:
            for one in _names(commands, name, self._skills()):
                yield one
            return
        command, desk = commands.find_command(name), self._desk()
        if command is None or command.complete is None or desk is None:
            return
        last = rest.rsplit(" ", 1)[-1]
        try:
            offered = await command.complete(CommandCall(desk, name, rest, commands))
        except HermesError:
            return  # what cannot be looked up now is not offered
        for option in offered:
            if option.label.lower().startswith(last.lower()):
                yield Completion(option.label, start_position=-len(last), display_meta=escaped(option.detail))


def _names(commands: CommandRegistry, typed: str, skills: Sequence[MenuOption]) -> Iterable[Completion]:
    """Names that begin with what was typed, then aliases that do, then names that have it inside."""
    low = typed.lower()
    rows = [(one.name, say(one.about)) for one in _listed(commands)]
    rows += [(option.label, option.detail) for option in skills if option.label not in commands]
    found = [row for row in rows if row[0].startswith(low)]
    if low:
        found += _aliases(commands, low)
        found += [row for row in rows if low in row[0][1:] and not row[0].startswith(low)]
    for name, about in found:
        yield Completion(name, start_position=-len(typed), display=f"/{name}", display_meta=escaped(about))


def _listed(commands: CommandRegistry) -> list[SlashCommand]:
    """The commands in the order in which `/help` shows them, without those that are only said elsewhere."""
    order = list(CommandGroup)
    shown = [one for one in commands.commands if one.group is not CommandGroup.ELSEWHERE]
    return sorted(shown, key=lambda one: order.index(one.group))


def _aliases(commands: CommandRegistry, low: str) -> list[tuple[str, str]]:
    return [
        (alias, say("the same as /{name}", name=one.name))
        for one in commands.commands
        for alias in one.aliases
        if one.group is not CommandGroup.ELSEWHERE and alias.startswith(low) and not one.name.startswith(low)
    ]


def references(typed: str, folder: str) -> Iterable[Completion]:
    """What may stand behind an `@`: the kinds of references, and files and folders for the two that take them."""
    for kind in ("file:", "folder:"):
        if typed.startswith(kind):
            for one in paths(typed.removeprefix(kind), folder, only_folders=kind == "folder:"):
                yield one
            return
    for kind in _KINDS:
        if typed and kind.startswith(typed):
            yield Completion(kind, start_position=-len(typed), display=f"@{kind}")
    if ":" not in typed:
        for one in paths(typed, folder, prefix="file:", whole=typed):
            yield one


def paths(
    typed: str, folder: str, *, only_folders: bool = False, prefix: str = "", whole: str | None = None
) -> Iterable[Completion]:
    """Files and folders whose path begins with what was typed; hidden ones only when their dot was typed."""
    head, tail = os.path.split(typed)
    replaced = len(typed if whole is not None else tail)
    for name, is_folder in _entries(os.path.join(folder, os.path.expanduser(head)), tail):
        if only_folders and not is_folder:
            continue
        shown = f"{name}/" if is_folder else name
        text = f"{prefix}{os.path.join(head, shown)}" if whole is not None else shown
        yield Completion(text, start_position=-replaced, display=shown)


def _entries(place: str, start: str) -> list[tuple[str, bool]]:
    """The names in a folder that begin so, however their letters are written, and whether each is a folder."""
    found = []
    try:
        with os.scandir(place) as entries:
            for entry in entries:
                fits = entry.name.lower().startswith(start.lower()) and (start.startswith(".") or entry.name[0] != ".")
                if fits and " " not in entry.name and escaped(entry.name) == entry.name:
                    found.append((entry.name, entry.is_dir()))
                if len(found) >= MOST:
                    break
    except OSError:
        return []
    return sorted(found)
