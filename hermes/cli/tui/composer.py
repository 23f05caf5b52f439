"""The message that a person is writing: the input line with its completions and history, long pastes, and pictures."""

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History

from hermes.cli.command_context import LEAVING_WORDS
from hermes.cli.tui.path_completion import complete_paths, complete_references, find_references
from hermes.commands.command import CommandCall, CommandRegistry
from hermes.commands.context import CommandContext, MenuOption, Surface
from hermes.commands.registry import command_registry
from hermes.core.errors import HermesError, UsageError
from hermes.core.messages import ImagePart
from hermes.i18n.messages import tr, tr_plural
from hermes.sessions.pictures import read_picture
from hermes.util.text import escape_unseen_characters

if TYPE_CHECKING:
    from hermes.admin.file_index import FileIndex

MAX_INLINE_LINES, MAX_INLINE_CHARACTERS = 12, 1_200
"""A paste above either stands in the line as a mark, and goes out as it is."""
MAX_PASTE_LENGTH = 8 << 20
"""Characters of one paste."""
MAX_HISTORY_LINES = 1_000
"""Lines of history."""
MAX_HISTORY_LENGTH = 4_000
"""Characters of a line that the history keeps with its pastes; a longer one is kept without them."""
_PICTURE_SUFFIXES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


class MessageDraft(Struct, frozen=True):
    """A message as it is sent."""

    text: str
    images: tuple[ImagePart, ...] = ()
    line: str = ""
    """The line as it stood in the input, with marks: only what a person typed can be a command."""


class InputHistory(History):
    """The lines typed before, kept in a file of the home: one a line, as JSON strings, with newlines as ` `.

    `redact` takes secrets out before anything is written.
    """

    def __init__(self, file: Path, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._file = file
        self._redact = redact
        self._writing: asyncio.Future[None] | None = None

    async def load(self) -> AsyncGenerator[str, None]:
        """Yield the lines, newest first; the file is read once, when the first key asks for it."""
        for one in await asyncio.to_thread(self._read_lines) if not self._loaded else ():
            self._loaded_strings.append(one)
        self._loaded = True
        for one in self._loaded_strings:
            yield one

    def load_history_strings(self) -> Iterable[str]:
        """Return the lines, newest first."""
        return self._read_lines()

    def store_string(self, string: str) -> None:
        """Append a line, behind what is being written. When the disk takes none, only this line is lost."""
        self._writing = asyncio.ensure_future(self._append_line(string, self._writing))

    async def close(self) -> None:
        """Wait until everything is written."""
        if self._writing is not None:
            await self._writing

    async def _append_line(self, string: str, before: "asyncio.Future[None] | None") -> None:
        if before is not None:
            await before
        line = json.dumps(self._redact(string), ensure_ascii=False) + "\n"
        await asyncio.to_thread(self._write_line, line)

    def _write_line(self, line: str) -> None:
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "a", encoding="utf-8", errors="replace") as file:
                file.write(line)

    def _read_lines(self) -> list[str]:
        try:
            lines = self._file.read_text(encoding="utf-8", errors="replace").split("\n")[-MAX_HISTORY_LINES - 1 :]
        except OSError:
            return []
        found = []
        for line in reversed(lines):
            try:
                said = json.loads(line)
            except ValueError:
                continue
            if isinstance(said, str) and said:
                found.append(said)
        return found


class Composer:
    """The input line. `submitted` is called with the text that Enter sends."""

    def __init__(self, history: History, completer: Completer, submitted: Callable[[str], None]) -> None:
        self._submitted = submitted
        self._pasted: dict[str, str] = {}
        self._pictures: dict[str, ImagePart] = {}
        self._count = 0
        self._prefilled = ""
        """The text that was put into the line and not touched since."""
        self.buffer = Buffer(
            name="input",
            multiline=True,
            history=history,
            completer=_WatchedCompleter(completer, self._end_lookup),
            complete_while_typing=Condition(self._can_complete),
            auto_suggest=AutoSuggestFromHistory(),
            enable_history_search=False,
            accept_handler=self._accept_line,
        )
        self._tab_at: str | None = None
        """The line in which Tab was pressed before there was anything to choose from."""
        self._entered_line: str | None = None
        """The line as it was when Tab went into a folder: Enter then closes the list of what is in it."""
        self.buffer.on_text_insert += lambda _: self._replace_prefilled()

    def _accept_line(self, buffer: Buffer) -> bool:
        self._prefilled = ""
        remaining = self._format_history_line(buffer.text)
        self._submitted(buffer.text)
        buffer.text = remaining
        return False  # what was typed is cleared, and kept in the history

    def take_line(self, send: Callable[[str], None]) -> None:
        """Clear the line, keep it in the history, and hand it to `send`."""
        line, self._prefilled = self.buffer.text, ""
        self.buffer.history.append_string(self._format_history_line(line))
        self.buffer.reset()
        send(line)

    def _format_history_line(self, line: str) -> str:
        """Return a line as the history has it: with its pastes where they are short, since marks would stand for
        nothing there.
        """
        resolved = self.resolve_draft(line).text
        if len(resolved) > MAX_HISTORY_LENGTH:
            resolved = _replace_marks(line, dict.fromkeys([*self._pasted, *self._pictures], "")).strip()
        return resolved if _is_same_command_kind(line, resolved) else f" {resolved}"

    def _replace_prefilled(self) -> None:
        """Let a command that is typed behind an untouched prefilled text take its place;
        the history keeps that text.
        """
        prefilled, self._prefilled = self._prefilled, ""
        line = self.buffer.text
        if prefilled and line in (f"{prefilled}/", f"{prefilled}!"):
            self.buffer.history.append_string(prefilled)
            self.buffer.reset(Document(line[-1]))

    def _can_complete(self) -> bool:
        """Return whether something can be completed: looking for it at every key of plain words would cost more than
        the key.
        """
        line = self.buffer.text
        return line.startswith("/") or "@" in line

    def insert_newline(self) -> None:
        """Begin a new line of the message."""
        self.buffer.insert_text("\n")

    def continue_line(self) -> bool:
        """Handle Enter behind a backslash: a new line takes its place. Behind two of them, of which the first makes the
        second a plain one, Enter is what it is elsewhere; return whether it was handled.
        """
        before = self.buffer.document.text_before_cursor
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            return False
        self.buffer.delete_before_cursor()
        self.insert_newline()
        return True

    def complete_line(self, steps: int = 1) -> None:
        """Handle Tab, or Shift-Tab with -1: go to another entry, or take the only one: of a folder what is in it is
        listed, else the list is closed. Without a list the first entry is taken as soon as all are known, however fast
        Tab came.
        """
        state = self.buffer.complete_state
        if state is None or not state.completions:
            self._tab_at = self.buffer.text
            self.buffer.start_completion()
        elif len(state.completions) == 1:
            self.buffer.go_to_completion(0)
            if self.has_chosen_folder():
                self.enter_folder()
            else:
                self.buffer.complete_state = None
        else:
            at = state.complete_index
            first = 0 if steps > 0 else len(state.completions) - 1
            self.buffer.go_to_completion(first if at is None else (at + steps) % len(state.completions))

    def has_chosen_folder(self) -> bool:
        """Return whether the chosen entry of the list is a folder."""
        state = self.buffer.complete_state
        chosen = state.current_completion if state is not None else None
        return chosen is not None and chosen.text.endswith("/")

    def enter_folder(self) -> None:
        """Keep the chosen folder, and list what is in it."""
        self.buffer.complete_state = None
        self._entered_line = self.buffer.text
        self.buffer.start_completion()

    def is_first_marked(self) -> bool:
        """Return whether the first entry of the list counts as chosen before anybody has moved there: it is the command
        that what was typed begins. One that removes protection must be chosen, or typed in full.
        """
        state, line = self.buffer.complete_state, self.buffer.text
        if state is None or not state.completions or state.complete_index is not None or not line.startswith("/"):
            return False
        commands, typed, first = command_registry(Surface.TERMINAL), line[1:], state.completions[0].text
        if not typed or commands.find_command(typed) is not None:
            return first == typed
        command = commands.find_command(first)
        return first.lower().startswith(typed.lower()) and not (command is not None and command.risky)

    def move_from_first(self, steps: int) -> None:
        """Go from the first entry, which counts as chosen, to the next one, or with -1 to the last."""
        state = self.buffer.complete_state
        if state is not None and state.completions:
            self.buffer.go_to_completion(steps % len(state.completions))

    def take_entry(self) -> bool:
        """Handle Enter in a list; return whether that was all. In one of commands the marked entry is taken, and the
        line is then sent. In others a chosen entry, or what Tab has listed, is left as it is in the line.
        """
        state, entered = self.buffer.complete_state, self._entered_line
        self._entered_line = None
        if state is None or not state.completions:
            return False
        if self.buffer.text.startswith("/"):
            if self.is_first_marked():
                self.buffer.go_to_completion(0)
            self.buffer.complete_state = None
            return False
        if state.current_completion is None and self.buffer.text != entered:
            return False
        self.buffer.complete_state = None
        return True

    def _end_lookup(self, before: str) -> None:
        """Look again when the line became another one during a lookup; the library does so only for a longer line.
        Else do what Tab was pressed for.
        """
        loop, now = asyncio.get_running_loop(), self.buffer.document.text_before_cursor
        if not now.startswith(before) and self._can_complete():
            loop.call_soon(self.buffer.start_completion)
        elif self._tab_at is not None:
            loop.call_soon(self._finish_tab)

    def _finish_tab(self) -> None:
        state, pressed = self.buffer.complete_state, self._tab_at
        if pressed is None or (pressed == self.buffer.text and (state is None or not state.completions)):
            return
        self._tab_at = None
        if pressed == self.buffer.text and state is not None and state.complete_index is None:
            self.complete_line()

    def paste_text(self, text: str) -> None:
        """Put a paste into the line: a short one unchanged, a long one as a mark, the
        path of a picture as a picture.
        """
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._prefilled = ""
        if len(text) > MAX_PASTE_LENGTH:
            self.buffer.insert_text(tr("[a paste over 8 MB was left out]"))
            return
        if (path := _find_picture_path(text)) is not None:
            try:
                self.attach_picture(path)
            except UsageError:
                self.buffer.insert_text(text)
            return
        lines = len(text.splitlines())
        # A paste that holds a mark itself must not be taken for what that mark stands for.
        marked = any(mark in text for mark in (*self._pasted, *self._pictures))
        if lines <= MAX_INLINE_LINES and len(text) <= MAX_INLINE_CHARACTERS and not marked:
            self.buffer.insert_text(text if self.buffer.cursor_position else _neutralize_paste(text))
            return
        size = (
            tr_plural("{n} line", "{n} lines", lines)
            if lines > 1
            else tr_plural("{n} letter", "{n} letters", len(text))
        )
        mark = self._create_mark(lambda number: tr("[pasted {n}: {size}]", n=number, size=size))
        self._pasted[mark] = text
        self.buffer.insert_text(mark)

    def attach_picture(self, path: str, picture: ImagePart | None = None) -> None:
        """Put a picture's mark into the line; it goes along with the message. Raises UsageError when the file is no
        picture.
        """
        picture = read_picture(Path(path).expanduser()) if picture is None else picture
        name = re.sub(r"[\[\]\n]", "", Path(path).name)[:40]
        mark = self._create_mark(lambda number: tr("[picture {n}: {name}]", n=number, name=name))
        self._pictures[mark] = picture
        self.buffer.insert_text(mark)

    def _create_mark(self, made: Callable[[int], str]) -> str:
        """Return a mark that is not in the line yet: one that was recalled or pasted there stands for nothing. The
        numbers begin at 1 again with an empty line.
        """
        self._count = self._count + 1 if self.buffer.text.strip() else 1
        while (mark := made(self._count)) in self.buffer.text:
            self._count += 1
        return mark

    def resolve_draft(self, line: str) -> MessageDraft:
        """Return the message that a line stands for, its marks resolved. A mark that was deleted from the line takes
        its picture along.
        """
        images = tuple(picture for mark, picture in self._pictures.items() if mark in line)
        words = _replace_marks(line, dict.fromkeys(self._pictures, "")).strip() if images else line
        return MessageDraft(_replace_marks(words, self._pasted), images, line)

    def clear_marks(self) -> None:
        """Forget the marks after the message was sent."""
        self._pasted.clear()
        self._pictures.clear()

    def prefill_input(self, text: str) -> None:
        """Put a message into the line, in front of what is there. It stays a message, however it begins."""
        rest = self.buffer.text
        text = f" {text}" if text.startswith(("!", "/")) or text.rstrip() in LEAVING_WORDS else text
        self.buffer.text = f"{text}\n{rest}" if rest.strip() else text
        self.buffer.cursor_position = len(self.buffer.text)
        self._prefilled = "" if rest.strip() else text


def _neutralize_paste(text: str) -> str:
    """Put a space before a pasted command at the beginning of a line, so that it is no command until the person
    types something to make it one.
    """
    runs = text.startswith("!") or (text.startswith("/") and "\n" in text)
    return f" {text}" if runs else text


def _replace_marks(line: str, texts: Mapping[str, str]) -> str:
    """Replace the marks of a line, all at once: a mark inside a replaced text is not replaced again."""
    if not texts:
        return line
    return re.sub("|".join(map(re.escape, texts)), lambda mark: texts[mark[0]], line)


def _is_same_command_kind(line: str, other: str) -> bool:
    """Return whether a line is a command where the other is one."""
    return not other.startswith(("!", "/")) or line.startswith(other[0])


def _find_picture_path(text: str) -> str | None:
    """Return the path of a picture, when a paste is nothing else: terminals paste a dropped file's path, quoted or
    escaped.
    """
    line = text.strip()
    if "\n" in line or len(line) > 4_096 or not line.lower().rstrip("'\"").endswith(_PICTURE_SUFFIXES):
        return None
    path = line[1:-1] if line[:1] in "'\"" and line[-1:] == line[:1] else line.replace("\\ ", " ")
    path = path.removeprefix("file://")
    return path if path.startswith(("/", "~/", "./")) and os.path.isfile(os.path.expanduser(path)) else None


class _WatchedCompleter(Completer):
    """Completes as another completer does, and reports the end of each lookup with the text that it was for."""

    def __init__(self, completer: Completer, ended: Callable[[str], None]) -> None:
        self._completer = completer
        self._ended = ended

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """Return nothing: only the asynchronous form is used."""
        return ()

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        """Return what the other completer does."""
        try:
            async with contextlib.aclosing(self._completer.get_completions_async(document, complete_event)) as found:
                async for one in found:
                    yield one
        finally:
            self._ended(document.text_before_cursor)


class ChatCompleter(Completer):
    """Completes the input line of a chat. `context` returns None until the session is open."""

    def __init__(self, context: Callable[[], CommandContext | None]) -> None:
        self._context = context
        self._prompts: Sequence[MenuOption] | None = None
        """Skills and own commands, as they were when a line began with a slash; None until one did."""
        self._files: FileIndex | None = None

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
            typed, folder = word[1:], self._working_folder()
            for one in await asyncio.to_thread(lambda: list(complete_references(typed, folder))):
                yield one
            for one in await asyncio.to_thread(self._find_references, typed, folder):
                yield one
        elif complete_event.completion_requested and "/" in word:
            for one in await asyncio.to_thread(lambda: list(complete_paths(word, self._working_folder()))):
                yield one

    def _find_references(self, typed: str, folder: str) -> list[Completion]:
        if self._files is None:
            from hermes.admin.file_index import FileIndex

            self._files = FileIndex()
        return list(find_references(typed, folder, self._files))

    def _working_folder(self) -> str:
        context = self._context()
        return context.app.options.cwd or os.getcwd() if context is not None else os.getcwd()

    async def _complete_commands(self, typed: str) -> AsyncGenerator[Completion, None]:
        commands = command_registry(Surface.TERMINAL)
        name, space, rest = typed.partition(" ")
        if not space:
            for one in _complete_names(commands, name, await self._load_prompts(renew=not name)):
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

    async def _load_prompts(self, renew: bool) -> Sequence[MenuOption]:
        context = self._context()
        if context is not None and (renew or self._prompts is None):
            from hermes.commands.named_prompts import describe_prompt, list_named_prompts

            try:
                found = await list_named_prompts(context.app, context.prompt_scope)
            except HermesError:
                return ()  # what cannot be looked up now is not offered
            self._prompts = [MenuOption(one.name, describe_prompt(one)) for one in found]
        return self._prompts or ()


def _complete_names(commands: CommandRegistry, typed: str, skills: Sequence[MenuOption]) -> Iterable[Completion]:
    """Complete names that begin with what was typed, then aliases that do, then names that have it inside. The name
    that was typed in full is the first; among equals the usual commands are.
    """
    low = typed.lower()
    rows = [(one.name, tr(one.about)) for one in commands.ranked]
    rows += [(option.label, option.detail) for option in skills if option.label not in commands]
    found = [row for row in rows if row[0].startswith(low)]
    if low:
        found += _match_aliases(commands, low)
        found += [row for row in rows if low in row[0][1:] and not row[0].startswith(low)]
    for name, about in sorted(found, key=lambda row: row[0] != low):
        yield Completion(
            name, start_position=-len(typed), display=f"/{name}", display_meta=escape_unseen_characters(about)
        )


def _match_aliases(commands: CommandRegistry, low: str) -> list[tuple[str, str]]:
    return [
        (alias, tr("the same as /{name}", name=one.name))
        for one in commands.ranked
        for alias in one.aliases
        if alias.startswith(low) and not one.name.startswith(low)
    ]
