"""What a person is about to say: the input line with its history, long pastes, and pictures to go along."""

import asyncio
import contextlib
import json
import os
import re
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from pathlib import Path

from msgspec import Struct
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition
from prompt_toolkit.history import History

from hermes.core.errors import UsageError
from hermes.core.parts import ImagePart
from hermes.i18n.messages import say, say_many
from hermes.sessions.image_files import read_picture

LONG_LINES, LONG_CHARACTERS = 12, 1_200
"""A paste above either stands in the line as a mark, and goes out as it is."""
MOST_PASTED = 8 << 20
"""Bytes of one paste."""
MOST_KEPT = 1_000
"""Lines of history."""
MOST_RECALLED = 4_000
"""Characters of a line that the history keeps with its pastes; a longer one is kept without them."""
_PICTURES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


class Draft(Struct, frozen=True):
    """A message as it goes out."""

    text: str
    images: tuple[ImagePart, ...] = ()
    line: str = ""
    """The line as it stood there, with marks: only what a person typed makes a command of it."""


class Past(History):
    """What was typed before, kept in a file of the home: a line each, newlines as `\\n` in JSON strings.

    `redact` takes secrets out before anything is written.
    """

    def __init__(self, file: Path, redact: Callable[[str], str]) -> None:
        super().__init__()
        self._file = file
        self._redact = redact
        self._writing: asyncio.Future[None] | None = None

    async def load(self) -> AsyncGenerator[str, None]:
        """Newest first; read once, when the first key asks for it."""
        for one in await asyncio.to_thread(self._read) if not self._loaded else ():
            self._loaded_strings.append(one)
        self._loaded = True
        for one in self._loaded_strings:
            yield one

    def load_history_strings(self) -> Iterable[str]:
        """Newest first."""
        return self._read()

    def store_string(self, string: str) -> None:
        """Append one, behind what is being written; a disk that takes none loses a convenience, nothing more."""
        self._writing = asyncio.ensure_future(self._append(string, self._writing))

    async def close(self) -> None:
        """Wait for what is being written."""
        if self._writing is not None:
            await self._writing

    async def _append(self, string: str, before: "asyncio.Future[None] | None") -> None:
        if before is not None:
            await before
        line = json.dumps(self._redact(string), ensure_ascii=False) + "\n"
        await asyncio.to_thread(self._write, line)

    def _write(self, line: str) -> None:
        with contextlib.suppress(OSError):
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            handle = os.open(self._file, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            with os.fdopen(handle, "a", encoding="utf-8", errors="replace") as file:
                file.write(line)

    def _read(self) -> list[str]:
        try:
            lines = self._file.read_text(encoding="utf-8", errors="replace").split("\n")[-MOST_KEPT - 1 :]
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
    """The input line. `submitted` is called with what Enter sends."""

    def __init__(self, past: History, completer: Completer, submitted: Callable[[str], None]) -> None:
        self._submitted = submitted
        self._pasted: dict[str, str] = {}
        self._pictures: dict[str, ImagePart] = {}
        self._count = 0
        self._prefilled = ""
        """What was put into the line and not touched since."""
        self.buffer = Buffer(
            name="input",
            multiline=True,
            history=past,
            completer=completer,
            complete_while_typing=Condition(self._offers),
            auto_suggest=AutoSuggestFromHistory(),
            enable_history_search=False,
            accept_handler=self._accept,
        )
        self._tab_at: str | None = None
        """The line in which Tab was pressed before there was anything to choose from."""
        self.buffer.on_completions_changed += lambda _: self._offered()
        self.buffer.on_text_insert += lambda _: self._inserted()

    def _accept(self, buffer: Buffer) -> bool:
        self._prefilled = ""
        kept = self._kept(buffer.text)
        self._submitted(buffer.text)
        buffer.text = kept
        return False  # what was typed is cleared, and kept in the history

    def _kept(self, line: str) -> str:
        """A line as the history has it: with its pastes where they are short; marks would stand for nothing there."""
        resolved = self.draft(line).text
        if len(resolved) > MOST_RECALLED:
            resolved = _replaced(line, dict.fromkeys([*self._pasted, *self._pictures], "")).strip()
        return resolved if _begins_alike(line, resolved) else f" {resolved}"

    def _inserted(self) -> None:
        """A command typed behind a text that was put there and not touched takes its place; the history keeps that."""
        prefilled, self._prefilled = self._prefilled, ""
        line = self.buffer.text
        if prefilled and line in (f"{prefilled}/", f"{prefilled}!"):
            self.buffer.history.append_string(prefilled)
            self.buffer.reset(Document(line[-1]))

    def _offers(self) -> bool:
        """Whether something can be completed: to look for it at every key of plain words costs more than the key."""
        line = self.buffer.text
        return line.startswith("/") or "@" in line

    def complete(self) -> None:
        """Tab: the next that is offered; the first as soon as something is, however fast Tab came."""
        state = self.buffer.complete_state
        if state is not None and state.completions:
            self.buffer.complete_next()
            return
        self._tab_at = self.buffer.text
        self.buffer.start_completion(select_first=True)

    def _offered(self) -> None:
        state, pressed = self.buffer.complete_state, self._tab_at
        if pressed is None or state is None or not state.completions:
            return
        self._tab_at = None
        if state.complete_index is None and self.buffer.text == pressed:
            self.buffer.go_to_completion(0)

    def paste(self, text: str) -> None:
        """Put a paste into the line: a short one as it is, a long one as a mark, the path of a picture as a picture."""
        text = text.replace("\r\n", "\n").replace("\r", "\n")
        self._prefilled = ""
        if len(text) > MOST_PASTED:
            self.buffer.insert_text(say("[a paste over 8 MB was left out]"))
            return
        if (path := _picture_path(text)) is not None:
            try:
                self.attach(path)
            except UsageError:
                self.buffer.insert_text(text)
            return
        lines = text.count("\n") + 1
        # A paste that holds a mark itself must not be taken for what that mark stands for.
        marked = any(mark in text for mark in (*self._pasted, *self._pictures))
        if lines <= LONG_LINES and len(text) <= LONG_CHARACTERS and not marked:
            self.buffer.insert_text(text if self.buffer.cursor_position else _harmless(text))
            return
        size = (
            say_many("{n} line", "{n} lines", lines) if lines > 1 else say_many("{n} letter", "{n} letters", len(text))
        )
        mark = self._mark(lambda number: say("[pasted {n}: {size}]", n=number, size=size))
        self._pasted[mark] = text
        self.buffer.insert_text(mark)

    def attach(self, path: str, picture: ImagePart | None = None) -> None:
        """Put a picture's mark into the line; it goes along with the message. Raises UsageError when it is none."""
        picture = read_picture(Path(path).expanduser()) if picture is None else picture
        name = re.sub(r"[\[\]\n]", "", Path(path).name)[:40]
        mark = self._mark(lambda number: say("[picture {n}: {name}]", n=number, name=name))
        self._pictures[mark] = picture
        self.buffer.insert_text(mark)

    def _mark(self, made: Callable[[int], str]) -> str:
        """A mark that does not stand in the line yet: one that was recalled or pasted there stands for nothing."""
        self._count += 1
        while (mark := made(self._count)) in self.buffer.text:
            self._count += 1
        return mark

    def draft(self, line: str) -> Draft:
        """What a line stands for, its marks resolved; marks that were deleted from it take their pictures along."""
        images = tuple(picture for mark, picture in self._pictures.items() if mark in line)
        words = _replaced(line, dict.fromkeys(self._pictures, "")).strip() if images else line
        return Draft(_replaced(words, self._pasted), images, line)

    def forget(self) -> None:
        """The message has gone out: its marks stand for nothing any more."""
        self._pasted.clear()
        self._pictures.clear()

    def prefill(self, text: str) -> None:
        """Put a message into the line, in front of what is there. It stays a message, however it begins."""
        rest = self.buffer.text
        text = f" {text}" if text.startswith(("!", "/")) else text
        self.buffer.text = f"{text}\n{rest}" if rest.strip() else text
        self.buffer.cursor_position = len(self.buffer.text)
        self._prefilled = "" if rest.strip() else text


def _harmless(text: str) -> str:
    """A paste at the beginning of a line: it is no command before the person has typed something to make it one."""
    runs = text.startswith("!") or (text.startswith("/") and "\n" in text)
    return f" {text}" if runs else text


def _replaced(line: str, texts: Mapping[str, str]) -> str:
    """A line with its marks replaced, all at once: what stands in a text for a mark is none."""
    if not texts:
        return line
    return re.sub("|".join(map(re.escape, texts)), lambda mark: texts[mark[0]], line)


def _begins_alike(line: str, other: str) -> bool:
    """Whether a line is a command where the other is one."""
    return not other.startswith(("!", "/")) or line.startswith(other[0])


def _picture_path(text: str) -> str | None:
    """The path of a picture, when a paste is nothing else: terminals paste a dropped file's path, quoted or escaped."""
    line = text.strip()
    if "\n" in line or len(line) > 4_096 or not line.lower().rstrip("'\"").endswith(_PICTURES):
        return None
    path = line[1:-1] if line[:1] in "'\"" and line[-1:] == line[:1] else line.replace("\\ ", " ")
    path = path.removeprefix("file://")
    return path if path.startswith(("/", "~/", "./")) and os.path.isfile(os.path.expanduser(path)) else None
